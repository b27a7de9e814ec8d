# SPDX-License-Identifier: Apache-2.0
# Front door of the CMake build. `make help` lists what there is.
#   BUILD=build   where to build      JOBS=n      parallel jobs (default: all processors)
#   PREFIX=/usr/local, DESTDIR=       where `make install` puts things
#   TESTS="-R NAME"                   arguments for ctest; without, `make test` runs all tests
#   CKM_NO_SETUP=1                    never install packages; say what is missing instead
BUILD  ?= build
PREFIX ?= /usr/local
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
# The first configuration of a plain build leaves the tests out, so that it needs no cmocka.
CONFIGURE = cmake -S . -B $(BUILD) -DCMAKE_BUILD_TYPE=Release

MAKEFLAGS += --no-print-directory

.PHONY: all build setup setup-test setup-demo setup-wheel demo test quick check install wheel sdist bench paper format tidy clean help

all: build

build: setup
	@test -f $(BUILD)/CMakeCache.txt || $(CONFIGURE) -DCKM_BUILD_TESTS=OFF
	@cmake --build $(BUILD) --target product --parallel $(JOBS)

setup:
	@sh scripts/setup.sh build

setup-test:
	@sh scripts/setup.sh build test

setup-demo:
	@sh scripts/setup.sh build demo

setup-wheel:
	@sh scripts/setup.sh build wheel

demo: setup-demo build
	@cmake --build $(BUILD) --target examples --parallel $(JOBS)
	@CHECKMATE=$(BUILD)/checkmate sh scripts/demo.sh

test: setup-test
	@$(CONFIGURE) -DCKM_BUILD_TESTS=ON
	@cmake --build $(BUILD) --parallel $(JOBS)
	@cd $(BUILD) && ctest --output-on-failure --no-tests=error --parallel $(JOBS) $(TESTS)

# After an edit: what it changes is built, and every test runs that takes no second.
quick: setup-test
	@$(CONFIGURE) -DCKM_BUILD_TESTS=ON >/dev/null
	@cmake --build $(BUILD) --parallel $(JOBS)
	@cd $(BUILD) && ctest --output-on-failure --no-tests=error --parallel $(JOBS) -L quick $(TESTS)

check: test

install: build
	@cmake -S . -B $(BUILD) -DCMAKE_INSTALL_PREFIX=$(PREFIX)
	@cmake --build $(BUILD) --target product --parallel $(JOBS)
	@cmake --install $(BUILD)

wheel: setup-wheel
	@sh scripts/wheel.sh dist

sdist: setup-wheel
	@sh scripts/sdist.sh dist

bench: build
	@if [ -f bench/run.sh ]; then CHECKMATE=$(BUILD)/checkmate sh bench/run.sh; \
	 else echo "bench/run.sh is missing: no benchmarks in this tree" >&2; exit 1; fi

paper: setup-demo build
	@CHECKMATE=$(BUILD)/checkmate sh scripts/paper/run.sh

format:
	@sh scripts/format.sh

tidy: setup-test
	@sh scripts/tidy.sh

# Packages for those who have no checkout: a tarball of the last commit, and Debian's.
.PHONY: dist deb
dist:
	@sh scripts/dist.sh

deb:
	@sh scripts/setup.sh build package
	@sh scripts/deb.sh

clean:
	rm -rf $(BUILD)

help:
	@echo "make            build the library and the program: $(BUILD)/checkmate"
	@echo "make demo       build, then plan four networks and train one within memory budgets; prints two tables"
	@echo "make test       build everything and run all tests"
	@echo "make quick      the same for the tests that take no second, after an edit"
	@echo "make install    install under PREFIX ($(PREFIX)); DESTDIR is honoured"
	@echo "make wheel      make a Python wheel in dist/ that needs no Debian package; make sdist makes the sources of one"
	@echo "make dist       write checkmate-VERSION.tar.gz, the tree of the last commit"
	@echo "make deb        write Debian packages into packages/, checked by lintian"
	@echo "make bench      run the benchmarks"
	@echo "make paper      run the experiments of the Checkmate paper and write docs/RESULTS.md: about half an hour, can be interrupted"
	@echo "make format     format all C files with clang-format-14"
	@echo "make tidy       run clang-tidy-14 on the tree"
	@echo "make clean      remove $(BUILD)"
	@echo "Missing Debian packages are installed first (root or sudo); CKM_NO_SETUP=1 forbids it."
