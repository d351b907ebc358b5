# The tables of Unicode, which are made from what the tokenizers package does.

unicode: $(BUILD)/venv/ready ## make ext/text/unicode_tables.c anew by asking the tokenizers package
	$(BUILD)/venv/bin/python ext/text/make_unicode
unicode-check: $(BUILD)/venv/ready ## is ext/text/unicode_tables.c what the tokenizers package says?
	@$(BUILD)/venv/bin/python ext/text/make_unicode --check
.PHONY: unicode unicode-check
