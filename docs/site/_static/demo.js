/* Opens the demos of a page: each when it comes into view, so that a page that is read for its text loads none. */
addEventListener("DOMContentLoaded", () => {
  const seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      seen.unobserve(target);
      open(target);
    }
  });

  function open(frame) {
    if (location.protocol === "file:") {   // a page of a file may read no module
      frame.replaceWith("This demo needs a server: python3 -m http.server, in the folder of these pages.");
      return;
    }
    frame.onload = () => {   // as high as its page, and the frame's lines; without the links to the other demos
      const page = frame.contentDocument;
      page.querySelector("nav")?.remove();
      new ResizeObserver(() => { frame.style.height = `${page.documentElement.offsetHeight + 2}px`; }).observe(page.body);
    };
    frame.src = frame.dataset.src;
  }

  document.querySelectorAll(".demo iframe").forEach((frame) => seen.observe(frame));
});
