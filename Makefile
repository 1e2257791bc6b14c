# The one door. `make demo` and `make test` install what they need and say so before they do.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
VENV   := .venv
PY     := $(VENV)/bin/python
SECONDS := 60
MINUTES := 10
LAYERS := faults browser servers devices vm exact busy
TARGET := $(or $(CARGO_TARGET_DIR),target)
ENGINE := $(shell find engine -name '*.rs' -o -name '*.c' -o -name '*.h' -o -name Cargo.toml 2>/dev/null) Cargo.toml Cargo.lock

.PHONY: help build demo test tests-built test-all layers test-busy vm check fresh wheel packages audit semver bench fuzz faults static docs site costs golden format lock clean

help: ## This list
	@sed -nE 's/^([a-z-]+):.*## (.*)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

build: ## Install what dutlab needs and build it into .venv; some minutes the first time
	scripts/needs demo
	$(MAKE) --no-print-directory $(VENV)/.installed

demo: ## Benchmark a Linux router and firewall in the embedded lab, under 8 minutes; no hardware needed
	$(MAKE) --no-print-directory build
	$(VENV)/bin/dutlab demo

test: ## Install what most tests need and run them
	scripts/needs test
	$(MAKE) --no-print-directory --jobs 2 --output-sync=target $(VENV)/.packages-dev tests-built
	$(MAKE) --no-print-directory $(VENV)/.installed-dev
	scripts/lint
	scripts/test base

test-all: test ## All tests: those of `make test`, then every layer
	$(MAKE) --no-print-directory layers WHOLE="$(LAYERS)"

layers: ## More tests, by layer: WHOLE="faults browser servers devices vm exact busy", SMOKE="…" for one test of each; scripts/layers says what a change needs
	scripts/needs $(WHOLE) $(SMOKE)
	$(MAKE) --no-print-directory $(VENV)/.installed-dev
	$(if $(WHOLE),scripts/test $(WHOLE))
	$(if $(SMOKE),scripts/test --smoke $(SMOKE))

vm: ## Guests with kernels of their own, in user-mode Linux and QEMU, as root
	$(MAKE) --no-print-directory layers WHOLE=vm

test-busy: ## Tests that wait, kill or read a clock, under four times the load that the machine can carry
	$(MAKE) --no-print-directory layers WHOLE=busy

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

faults: ## Kills, tamperings, mutated imports, SQL, endless files and builds for MINUTES=10, as root; the seed is printed, SEED repeats it
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

audit: $(VENV)/.installed-dev ## Licences and lock files, as CI does it; LISTS=yes asks too for known weaknesses of packages and crates
	scripts/audit $(if $(LISTS),weaknesses)

docs: $(VENV)/.installed-dev ## Write again what is made from code: contracts/ and the command reference
	scripts/docs

site: $(VENV)/.installed-dev ## The documentation as a site, dist/site/index.html; a dead link ends it
	scripts/site

costs: $(VENV)/.installed-dev ## Run the tests and write what each costs into docs/reference/tests.md
	rm -rf dist/costs
	PYTEST_ADDOPTS="-p costs --costs $(CURDIR)/dist/costs" scripts/test base faults browser servers devices vm exact
	scripts/costs dist/costs

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

# Product and tests have one build profile: nothing is compiled twice.
tests-built:
	cargo test --release --workspace --no-run --quiet

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
