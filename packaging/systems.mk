# macOS and Windows, built on Linux; docs/platforms.md says what was built and run. A recipe begins
# with + so that the make that it starts shares the jobs of -j.

# Compilers for both, from PyPI.
ZIG = $(BUILD)/zig/venv
$(ZIG)/ready: tests/zig/requirements.txt
	python3 -m venv $(ZIG)
	$(ZIG)/bin/pip install -q -r $<
	@touch $@
zig = $(abspath $(ZIG))/bin/python -m ziglang
# Objects that zig keeps for the next build; in the home directory they would stay after make clean.
export ZIG_GLOBAL_CACHE_DIR ?= $(abspath $(BUILD))/zig/cache

MACS = aarch64-macos x86_64-macos
macos: $(MACS:%=macos-%) ## everything for macOS, arm64 and x86_64, linked by zig; nothing is run
$(MACS:%=macos-%): macos-%: $(ZIG)/ready
	+$(MAKE) BUILD=$(BUILD)/$* CC="$(zig) cc -target $*" AR="$(zig) ar" OWN_CHECK=1 all tests

MINGW = x86_64-w64-mingw32
ON_WINDOWS = $(MAKE) BUILD=$(BUILD)/windows CC=$(MINGW)-gcc AR=$(MINGW)-ar
windows: ## everything for Windows, x86_64, with MinGW-w64
	@command -v $(MINGW)-gcc >/dev/null || \
	    { echo "make windows needs MinGW-w64: apt-get install gcc-mingw-w64-x86-64"; exit 1; }
	+$(ON_WINDOWS) all tests
windows-zig: $(ZIG)/ready ## the same with zig
	+$(MAKE) BUILD=$(BUILD)/windows-zig CC="$(zig) cc -target x86_64-windows-gnu" AR="$(zig) ar" all tests

WINE_PREFIX = $(BUILD)/windows/wine
WINE = WINEDEBUG=-all WINEPREFIX=$(abspath $(WINE_PREFIX))
# Made before the tests: if two programs were the first at the same time, both would make it, and one would fail.
$(WINE_PREFIX)/ready:
	@command -v wine >/dev/null || { echo "make windows-test needs Wine: apt-get install wine wine64"; exit 1; }
	@mkdir -p $(@D)
	$(WINE) wine wineboot -i
	$(WINE) wineserver -w
	@touch $@
windows-test: windows $(WINE_PREFIX)/ready ## its suite and the demo in Wine; SUITES="nn io": these alone
	+RUN=wine $(WINE) $(ON_WINDOWS) test
	$(if $(CHOSEN),,+RUN=wine $(WINE) $(ON_WINDOWS) demo)

.PHONY: windows windows-zig windows-test macos $(MACS:%=macos-%)
