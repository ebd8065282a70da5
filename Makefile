# demo · test · bench · lint · generate · soak: the only commands. Each does its own set-up; CI calls `make test`.
#
# Needs: Rust (cargo) and Python 3.11 or newer. What else is missing (a linker, the venv module) is installed with apt-get where that is possible.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUST_SOURCES := $(shell find crates data -name '*.rs' -o -name '*.toml' -o -name '*.csv') Cargo.toml Cargo.lock
export PATH := $(HOME)/.cargo/bin:$(PATH):/usr/local/sbin:/usr/sbin:/sbin

.PHONY: help demo lab test test-rust test-python bench lint generate soak clean

help:
	@echo "make demo      set up, plan a recorded day of an InnoDB server, prove a prediction on a real one; writes headrace-report.html"
	@echo "make lab       build headraced, the daemon of the lab, into .venv/bin"
	@echo "make test      set up, run every test"
	@echo "make bench     speed and accuracy, beside SimPy and on real servers; prints tables (some 40 minutes)"
	@echo "make lint      formatting, clippy, ruff, types (pyright), facts with sources, sizes of files and functions"
	@echo "make generate  write what is made from sources: docs/reference/cli.md, and the lab's Python client and protocol page"
	@echo "make soak      the property tests with many more cases, 50 crashes of the lab (an hour)"

# A linker and the venv module are not part of Rust or Python on a bare Debian.
$(VENV)/system.ok:
	@command -v cargo >/dev/null || { echo "error: cargo is missing. Install Rust 1.85 or newer (https://rustup.rs), then run this again." >&2; exit 3; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $$($(PYTHON) --version) is too old: Python 3.11 or newer is needed. Set PYTHON=..." >&2; exit 3; }
	@want=""; command -v cc >/dev/null || want="$$want build-essential"; \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || want="$$want python3-venv"; \
	if [ -n "$$want" ]; then \
	  command -v apt-get >/dev/null || { echo "error: please install:$$want" >&2; exit 3; }; \
	  sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); $$sudo apt-get update -qq && $$sudo apt-get install -y -qq $$want; \
	fi
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check "maturin>=1.7,<2"
	@touch $@

# The package with its Rust core, built in release mode and installed editable.
$(VENV)/package.ok: $(VENV)/system.ok pyproject.toml $(RUST_SOURCES)
	@echo "Building headrace (about a minute the first time) ..."
	@VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin develop --profile dist --extras test > $(VENV)/build.log 2>&1 || { cat $(VENV)/build.log >&2; exit 3; }
	@touch $@

# The daemon of the lab, beside the Python that starts it.
$(BIN)/headraced: $(VENV)/system.ok $(RUST_SOURCES)
	@echo "Building headraced ..."
	@cargo build --release --quiet -p headrace-daemon
	@install -m 755 target/release/headraced $@

# What the tests and `make demo` use: file systems, loads and servers. The planner needs none of it; where apt-get is missing, tests say what they lack.
$(VENV)/machine.ok: $(VENV)/system.ok
	@if command -v apt-get >/dev/null; then \
	  sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); $$sudo apt-get update -qq && \
	  $$sudo env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq fio xfsprogs sysbench patch openssl mariadb-server mariadb-plugin-rocksdb >/dev/null; \
	fi
	@touch $@

# MySQL itself is not in Debian's stable releases: unpacked beside the system. Without it, tests that need it are skipped by name.
$(VENV)/mysql.ok: $(VENV)/package.ok $(VENV)/machine.ok
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then $(BIN)/headrace mysql install mysql >/dev/null || true; fi
	@touch $@

lab: $(BIN)/headraced

# A proof on a real server needs root and FUSE; without them the demo says so, and nothing is installed for it.
CAN_PROVE := $(shell [ "$$(id -u)" = 0 ] && [ -e /dev/fuse ] && echo yes)

demo: $(VENV)/package.ok $(if $(CAN_PROVE),$(VENV)/machine.ok $(BIN)/headraced)
	@$(BIN)/headrace demo

test: test-rust test-python

test-rust: $(VENV)/system.ok $(VENV)/machine.ok
	cargo test --release --workspace --exclude headrace-py --quiet

test-python: $(VENV)/package.ok $(VENV)/machine.ok $(VENV)/mysql.ok $(BIN)/headraced
	$(BIN)/python -m pytest -q -n auto --dist worksteal tests/unit python/headrace
	$(BIN)/python -m pytest -q tests/lab tests/mysql

bench: $(VENV)/package.ok $(VENV)/machine.ok $(BIN)/headraced
	@$(BIN)/pip install --quiet --disable-pip-version-check "simpy>=4.1,<5"
	@if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then apt-get install -y -qq qemu-system-common nbdkit libnbd-bin fuse3 >/dev/null 2>&1 || true; fi
	@$(BIN)/python benchmarks/run.py

lint: $(VENV)/package.ok
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --release --quiet -- -D warnings
	$(BIN)/ruff check python tests benchmarks examples
	$(BIN)/ruff format --check python tests benchmarks examples
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/python tests/tidy.py

generate: $(VENV)/package.ok
	$(BIN)/python -m headrace.cli.reference docs/reference/cli.md
	cargo run --release --quiet -p headrace-protocol --example generate

soak: $(VENV)/package.ok $(VENV)/machine.ok $(VENV)/mysql.ok $(BIN)/headraced
	PROPTEST_CASES=20000 cargo test --release --workspace --exclude headrace-py
	HYPOTHESIS_PROFILE=soak $(BIN)/python -m pytest -q -n auto --dist worksteal tests/unit python/headrace
	HYPOTHESIS_PROFILE=soak CRASHES=50 $(BIN)/python -m pytest -q tests/lab tests/mysql

clean:
	rm -rf target $(VENV) headrace-report.html
