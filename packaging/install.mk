# Installing, what CMakeLists.txt installs too (packaging/check compares the files): the templates in this folder are filled by both.
# Paths may have spaces.

PREFIX  ?= /usr/local
BINDIR  ?= $(PREFIX)/bin
LIBDIR  ?= $(PREFIX)/lib
MANDIR  ?= $(PREFIX)/share/man
DOCDIR  ?= $(PREFIX)/share/doc/cotangent
TO_INCLUDE = $(DESTDIR)$(PREFIX)/include/cotangent
TO_BIN = $(DESTDIR)$(BINDIR)
TO_LIB = $(DESTDIR)$(LIBDIR)
TO_MAN = $(DESTDIR)$(MANDIR)
TO_DOC = $(DESTDIR)$(DOCDIR)
# Windows looks for a DLL beside the program.
TO_SHARED = $(if $(filter windows,$(OS_NAME)),$(TO_BIN),$(TO_LIB))
LINKS = $(filter-out $(notdir $(SHARED)),$(SONAME) $(if $(filter windows,$(OS_NAME)),,$(LINKED)))
HEADERS = $(notdir $(wildcard include/cotangent/*.h))
CONFIGS = pkgconfig/cotangent.pc cmake/cotangent/cotangentConfig.cmake cmake/cotangent/cotangentConfigVersion.cmake
# Installed files are stripped, so the debug information of a build with -g stays in build/. STRIP=: keeps it.
STRIP ?= $(shell $(CC) -print-prog-name=strip)
absolute = $(if $(filter /%,$(firstword $(PREFIX))),,$(error PREFIX is not an absolute path: $(PREFIX)))

# The way from LIBDIR up to PREFIX: .. for PREFIX/lib. An installation finds its files by it after its folder was moved. It is empty if
# LIBDIR lies elsewhere; then the files have the absolute paths.
hash := \#
UP = $(shell prefix="$(PREFIX)" libdir="$(LIBDIR)"; case "$$libdir" in (*..*) ;; \
    ("$$prefix"/*) printf '%s\n' "$${libdir$(hash)"$$prefix"/}" | sed 's,[^/][^/]*,..,g' ;; esac)
# A pkg-config file of the system itself has the system's paths, which pkg-config leaves out of what it prints.
IN_SYSTEM = $(filter / /usr,$(PREFIX))
RELATIVE = $(if $(IN_SYSTEM),,$(UP))
# Where the dynamic linker does not look by itself, programs are linked with the path of the library.
RPATH = $(if $(filter windows,$(OS_NAME))$(filter /lib /lib64 /usr/lib /usr/lib64 /usr/lib/%,$(LIBDIR)),, -Wl$(comma)-rpath$(comma)$(QUOTE)$${libdir}$(QUOTE))
# pkgconf writes the blanks of ${pcfiledir} with backslashes itself; others need quotes.
QUOTE = $(if $(RELATIVE),,")
VALUES = 'VERSION=$(VERSION)' 'ABI=$(ABI)' 'LIBS=$(LIBS)' 'RPATH=$(RPATH)' 'QUOTE=$(QUOTE)' 'POINTER_BYTES=$(word 2,$(FACTS))' \
    'SONAME=$(if $(IS_MACOS),@rpath/)$(SONAME)' \
    'PC_PREFIX=$(if $(RELATIVE),$${pcfiledir}/../$(RELATIVE),$(PREFIX))' \
    'PC_LIBDIR=$(if $(RELATIVE),$${pcfiledir}/..,$(LIBDIR))' 'PC_INCLUDEDIR=$${prefix}/include' \
    'INCLUDE_FROM_LIB=$(if $(UP),$(UP),$(PREFIX))/include' \
    'SHARED_FROM_LIB=$(if $(filter windows,$(OS_NAME)),$(if $(UP),$(UP),$(PREFIX))/bin/)$(notdir $(SHARED))'
# Each file is readable for all, whatever the umask is.
configured = packaging/configured packaging/$(notdir $(1)).in $(VALUES) $(2) > "$(TO_LIB)/$(1)" && chmod 644 "$(TO_LIB)/$(1)"

install: $(STATIC) $(SHARED) $(PROGRAMS) $(MAN)/ready \
    ## headers, libraries, files for pkg-config and CMake, programs, manual pages, licence (PREFIX, LIBDIR, MANDIR, DESTDIR)
	@$(absolute)install -d "$(TO_INCLUDE)" "$(TO_BIN)" "$(TO_LIB)/pkgconfig" "$(TO_LIB)/cmake/cotangent" "$(TO_DOC)"
	install -m 644 include/cotangent/*.h "$(TO_INCLUDE)"
	install -m 644 $(STATIC) "$(TO_LIB)"
	$(STRIP) -S "$(TO_LIB)/$(notdir $(STATIC))"
	$(if $(SHARED),install -m 755 $(SHARED) "$(TO_SHARED)")
	$(if $(SHARED),$(STRIP) -S "$(TO_SHARED)/$(notdir $(SHARED))")
	$(foreach l,$(if $(SHARED),$(LINKS)),ln -sf $(if $(filter $(l),$(SONAME)),$(notdir $(SHARED)),$(SONAME)) "$(TO_LIB)/$(l)" &&) :
	$(if $(filter windows,$(OS_NAME)),install -m 644 $(BUILD)/$(LINKED) "$(TO_LIB)")
	@$(foreach c,$(CONFIGS),$(call configured,$(c)) &&) :
	$(if $(PROGRAMS),install -m 755 $(PROGRAMS) "$(TO_BIN)")
	$(if $(PROGRAMS),$(STRIP) $(PROGRAMS:$(BUILD)/%="$(TO_BIN)/%"))
	@for section in man1 man3; do [ ! -d $(MAN)/$$section ] || \
	    { install -d "$(TO_MAN)/$$section" && install -m 644 $(MAN)/$$section/* "$(TO_MAN)/$$section"; } || exit 1; done
	install -m 644 LICENSE packaging/copyright "$(TO_DOC)"

# Folders that are left empty go too; lib, include and share stay where they are the system's. Our manual pages are known by what they say.
uninstall: ## remove what install put there, with the same PREFIX and DESTDIR
	@$(absolute)cd "$(TO_INCLUDE)" 2>/dev/null && rm -f $(HEADERS) || true
	@cd "$(TO_SHARED)" 2>/dev/null && rm -f $(notdir $(SHARED)) || true
	@cd "$(TO_LIB)" 2>/dev/null && rm -f $(notdir $(STATIC)) $(LINKED) $(LINKS) $(CONFIGS) || true
	@cd "$(TO_BIN)" 2>/dev/null && rm -f $(notdir $(PROGRAMS)) || true
	@cd "$(TO_MAN)" 2>/dev/null && rm -f $$(grep -Els '^\.TH .*"cotangent [0-9.]+" "cotangent"$$|^\.so man3/cotangent-' \
	    $(patsubst $(BUILD)/%$(EXE),man1/%.1,$(PROGRAMS)) man3/cotangent*.3 man3/ct_*.3) || true
	@cd "$(TO_DOC)" 2>/dev/null && rm -f LICENSE copyright || true
	@for d in "$(PREFIX)/include/cotangent" "$(LIBDIR)/pkgconfig" "$(LIBDIR)/cmake/cotangent" "$(BINDIR)" "$(MANDIR)/man1" "$(MANDIR)/man3" \
	    "$(DOCDIR)"; do (cd "$(DESTDIR)/" && $(call rmdir_upwards,$${d#/})); done

# In the system's folders and without DESTDIR only the folders of our own name.
OWN_FOLDERS = */include/cotangent|*/cmake/cotangent|*/doc/cotangent
rmdir_upwards = $(if $(DESTDIR),rmdir -p "$(1)",$(if $(filter /usr /usr/local,$(PREFIX)), \
    case "$(1)" in ($(OWN_FOLDERS)) rmdir "$(1)" ;; esac,rmdir -p "$(1)")) 2>/dev/null || true
.PHONY: install uninstall
