"""CONTRIBUTING.md and SECURITY.md against the code: files of the recipes, variables of the long tests, hooks, ports."""

from __future__ import annotations

import re

import pytest
from places import ROOT

from headrace.base.settings import VARIABLES
from headrace.lab.place import API_PORT, DEFAULT_DATA_DIR, METRICS_PORT
from headrace.operate.exports.serving import DEFAULT_LISTEN

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
SECURITY = (ROOT / "SECURITY.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
TOPS = (ROOT, ROOT / "python/headrace")
# A file or folder in a code span: it has a slash, and no blank, wildcard or name in capitals that stands for another.
PLACE = re.compile(r"`([a-z_.][\w.-]*(?:/[\w.-]+)+/?)`")
STANDS_FOR = re.compile(r"\b(?:NAME|SERVICE|FILE)\b")
SETTING = re.compile(r"\b([A-Z][A-Z_]{2,})=(\S+)")
READ = re.compile(
    r"environ(?:\.get\(|\[)\s*\"([A-Z_]+)\"|\"([A-Z_]+)\" not in os\.environ|env::var(?:_os)?\(\"([A-Z_]+)\"\)"
)
# Variables that tests read or set for other reasons than their length.
NOT_OF_LENGTH = {
    "AWS_ACCESS_KEY_ID",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_STUB",
    "CI",
    "COLUMNS",
    "HEADRACED",
    "HEADRACE_METRICS_WRITER",
    "HEADRACE_SPEED_MIB",
    "HEADRACE_TEST_S3_URL",
    "JOURNAL_TEST_FILE_LIMIT",
    "JOURNAL_TEST_KILLED",
    "PATH",
}


def soak_settings() -> dict[str, list[str]]:
    """Variables that `make soak` sets, with their values."""
    block = MAKEFILE[MAKEFILE.index("\nsoak:") :].partition("\n\n")[0]
    settings: dict[str, list[str]] = {}
    for name, value in SETTING.findall(block):
        if "$" not in value:
            settings.setdefault(name, []).append(value)
    return settings


def table_of_variables() -> dict[str, str]:
    """The rows of the table of the long tests by variable: the column of `make soak`."""
    begin = CONTRIBUTING.index("| variable | usual |")
    rows = [line.strip("|").split("|") for line in CONTRIBUTING[begin:].partition("\n\n")[0].splitlines()[2:]]
    return {name: cells[2].strip() for cells in rows for name in re.findall(r"`([A-Z_]+)`", cells[0])}


def test_every_variable_of_the_soak_stands_in_the_table_with_its_number():
    table = table_of_variables()
    for name, values in soak_settings().items():
        assert name in table, f"CONTRIBUTING.md, The long tests: {name} of `make soak` is missing"
        documented = re.split(r"[ ;]+", table[name])
        assert set(values) <= set(documented), (
            f"{name} is {values} in the Makefile, and {table[name]} in CONTRIBUTING.md"
        )
    by_hand = {"OPENBLAS_CORETYPE", "OPENBLAS_NUM_THREADS"}  # of a loop over pairs
    assert set(table) - by_hand <= set(soak_settings()), "a variable of the table that `make soak` does not set"


def test_every_variable_that_tests_read_is_explained():
    read = set()
    for path in [*(ROOT / "tests").rglob("*.py"), *(ROOT / "crates").glob("*/tests/**/*.rs")]:
        read |= {name for names in READ.findall(path.read_text(encoding="utf-8")) for name in names if name}
    missing = {name for name in read - NOT_OF_LENGTH if f"`{name}`" not in CONTRIBUTING}
    assert len(read) > 40 and not missing, f"CONTRIBUTING.md, The long tests, does not explain {sorted(missing)}"


@pytest.mark.parametrize("text", [CONTRIBUTING, SECURITY], ids=["CONTRIBUTING.md", "SECURITY.md"])
def test_files_that_are_named_exist(text):
    named = [name for name in PLACE.findall(text) if not STANDS_FOR.search(name)]
    own = [name for name in named if not name.startswith(("~", ".venv", "target", "studies/NAME"))]
    missing = [name for name in own if not any((top / name).exists() for top in TOPS)]
    # Folders of a lab, whose names in SECURITY.md end with a slash or stand behind DATA.
    lab = {"volumes/", "snapshots/", "metrics/", "records/"}
    assert not set(missing) - lab


def test_hooks_of_each_commit_are_steps_of_make_lint():
    entries = re.findall(r"^\s+entry: (.+)$", (ROOT / ".pre-commit-config.yaml").read_text(), re.MULTILINE)
    lint = MAKEFILE[MAKEFILE.index("\nlint:") :].partition("\n\n")[0].replace("$(BIN)", ".venv/bin")
    assert len(entries) == 4 and all(entry in lint for entry in entries)
    assert ".pre-commit-config.yaml" in CONTRIBUTING


def test_security_names_what_listens_and_where_things_are():
    for place in (f"127.0.0.1:{API_PORT}", f"127.0.0.1:{METRICS_PORT}", DEFAULT_LISTEN, f"`{DEFAULT_DATA_DIR}`"):
        assert place in SECURITY
    named = set(re.findall(r"\bHEADRACE[A-Z_]*\b", SECURITY))
    assert named <= set(VARIABLES)
    secret = {name for name, variable in VARIABLES.items() if variable.secret}
    assert "HEADRACE_MYSQL_PASSWORD" in secret & named
