# SPDX-License-Identifier: Apache-2.0
# The short way to everything. The build itself is CMake's: see CMakePresets.json.
PREFIX ?= /usr/local
DESTDIR ?=

CONFIGURE = cmake --preset release --log-level=NOTICE
BUILD = cmake --build --preset release

.PHONY: run test nightly bench format install clean

run:
	@tools/setup.sh run
	@$(CONFIGURE)
	@$(BUILD) --target sumac_cli
	@build/cli/sumac demo --data data

test:
	@tools/setup.sh test
	@$(CONFIGURE)
	@$(BUILD)
	@ctest --preset release --output-log build/ctest.log
	@tools/budget.sh build/ctest.log

# The walks that take too long for every change.
nightly:
	@tools/setup.sh test
	@$(CONFIGURE)
	@$(BUILD)
	@ctest --preset nightly

bench:
	@tools/setup.sh bench
	@$(CONFIGURE)
	@$(BUILD) --target bench

format:
	@git ls-files '*.c' '*.h' '*.cpp' | xargs clang-format -i

install:
	@$(CONFIGURE)
	@$(BUILD)
	@DESTDIR=$(DESTDIR) cmake --install build --prefix $(PREFIX)

clean:
	@rm -rf build
