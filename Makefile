# The one door. `make demo` and `make test` install what they need and say so before they do.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
VENV   := .venv
PY     := $(VENV)/bin/python
SECONDS := 60
MINUTES := 10
PART := timing
TARGET := $(or $(CARGO_TARGET_DIR),target)
ENGINE := $(shell find engine -name '*.rs' -o -name '*.c' -o -name '*.h' -o -name Cargo.toml 2>/dev/null) Cargo.toml Cargo.lock

.PHONY: help build demo test test-busy vm check fresh wheel packages audit semver bench fuzz faults static docs site golden format lock clean

help: ## This list
	@sed -nE 's/^([a-z-]+):.*## (.*)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

build: ## Install what dutlab needs and build it into .venv; some minutes the first time
	scripts/needs demo
	$(MAKE) --no-print-directory $(VENV)/.installed

demo: ## Benchmark a Linux router and firewall in the embedded lab, under 8 minutes; no hardware needed
	$(MAKE) --no-print-directory build
	$(VENV)/bin/dutlab demo

test: ## Install what the tests need and run all of them
	scripts/needs test
	$(MAKE) --no-print-directory $(VENV)/.installed-dev
	scripts/lint
	scripts/test

test-busy: ## The tests that wait, kill or read a clock, beside other work that wants four times the CPUs; PART=ci for some of them, PART=all for all tests
	scripts/needs test
	$(MAKE) --no-print-directory $(VENV)/.installed-dev
	cargo test --release --workspace --no-run --quiet
	scripts/busy scripts/test $(PART)

vm: ## What needs a kernel with ESP or arrays, on user-mode Linux, or drivers of cards, in QEMU, as root: 15 minutes, more beside other work
	scripts/needs vm
	$(MAKE) --no-print-directory $(VENV)/.installed-dev
	scripts/test vm

check: ## Format, lint, types, imports, unit tests
	scripts/needs check
	$(MAKE) --no-print-directory $(VENV)/.installed-dev
	scripts/check

fresh: ## The README's commands in a new Debian root that has only what the README asks for, as root
	scripts/needs fresh
	scripts/fresh

bench: ## Ratios against peers, each pair measured in one run
	scripts/needs bench
	$(MAKE) --no-print-directory $(VENV)/.installed-dev
	scripts/bench

fuzz: ## Mutated input for frames, protocol and ledger, SECONDS=60 a target; the seed is printed
	SECONDS_EACH=$(SECONDS) scripts/fuzz

faults: ## Kills, tamperings, mutated imports, SQL for MINUTES=10, as root; the seed is printed, SEED repeats it
	$(MAKE) --no-print-directory $(VENV)/.installed-dev
	nice -n 10 scripts/isolated $(PY) tests/faults/faults.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

semver: ## What the crates that others can build on took away since the newest tag, or SINCE=COMMIT
	scripts/semver $(SINCE)

static: ## dist/dutlab-engine: one static file for x86-64 Linux, or ARCH=aarch64, proven to run with nothing installed
	scripts/static

wheel: $(VENV)/.installed ## dist/dutlab-VERSION-….whl with the static engine inside, and the source archive; the same commit gives the same wheel; ARCH=aarch64
	scripts/wheel

packages: $(VENV)/.installed ## Wheel, source archive, Debian packages and image, each installed, used, upgraded and removed in a bare Debian root, as root
	scripts/needs packages
	scripts/packages

audit: $(VENV)/.packages-dev ## Known weaknesses of Python packages and crates, as far as their lists can be had; says what was not checked
	scripts/audit

docs: $(VENV)/.installed-dev ## Write again what is made from code: contracts/ and the command reference
	scripts/docs

site: $(VENV)/.installed-dev ## The documentation as a site, dist/site/index.html; a dead link ends it
	scripts/site

golden: $(VENV)/.installed-dev ## Write the golden pages of the tests again (tests/golden); review the diff
	GOLDEN=write $(PY) -m pytest --quiet tests/unit

format: $(VENV)/.installed-dev ## Format both languages
	$(VENV)/bin/ruff format src tests
	$(VENV)/bin/ruff check --fix-only src tests
	cargo fmt --all

lock: $(VENV)/.installed-dev ## Resolve the Python dependencies; what is pinned stays, scripts/lock --upgrade takes the newest
	scripts/lock

clean: ## Remove what make built; run folders stay
	rm -rf $(VENV) target dist

$(PY):
	python3 -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dutlab needs Python 3.11 or newer; this is " + sys.version)'
	python3 -m venv $(VENV)

# The package is installed editable; the engine's binary is built by the same step and put beside the interpreter.
$(VENV)/.packages: requirements.lock | $(PY)
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	touch $@

$(VENV)/.packages-dev: requirements-dev.lock $(VENV)/.packages
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	touch $@

$(VENV)/.installed: $(VENV)/.packages pyproject.toml dutlab.data/scripts/dutlab $(ENGINE)
	@echo 'dutlab: building the engine; some minutes the first time'
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	$(PY) -m dutlab.cli.man_pages $(VENV)/share/man/man1
	touch $@

$(VENV)/.installed-dev: $(VENV)/.packages-dev $(VENV)/.installed
	touch $@
