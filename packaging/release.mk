# What a release is made of, and what it must not break.

dist: ## build/dist/cotangent-VERSION.tar.gz: the last commit and its amalgamation, the same bytes in every clone
	@packaging/dist $(BUILD)/dist
dist-check: ## whether two clones make the same archive, and what lies in it builds, is tested and installs without git
	@packaging/dist-check
deb: ## Debian packages of the last commit, in build/deb; needs debhelper, devscripts and help2man
	@packaging/deb $(BUILD)/deb
deb-check: deb ## lintian on them; they are installed, used and removed, by root or sudo; needs lintian and cmake
	@packaging/deb-check $(BUILD)/deb
abi-check: ## whether programs linked with the library of the last tag still fit this one; needs abidiff
	@BUILD=$(BUILD) packaging/abi-check || [ $$? = 77 ]
.PHONY: dist dist-check deb deb-check abi-check
