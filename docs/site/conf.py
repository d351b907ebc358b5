"""Sphinx's settings for the pages that docs/site/pages.py writes."""
import os

project = "cotangent"
html_title = "cotangent"
extensions = ["myst_parser", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
myst_enable_extensions = ["html_image"]
primary_domain = "c"
highlight_language = "none"
html_theme = "furo"
html_copy_source = False
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["demo.js"]
html_extra_path = list(filter(os.path.exists, [os.path.join(os.environ["SITE_PAGES"], "extra")]))   # the demos
html_favicon = "_static/icon.svg"
c_id_attributes = ["CT_API"]
