"""The environment variables: one table, and nothing read beside it."""

from __future__ import annotations

import re
from pathlib import Path

from headrace.base import settings

ROOT = Path(__file__).parents[3]
# Handed to sysbench's scripts, and not read by Headrace.
HANDED_ON = {"HEADRACE_SCRIPT", "HEADRACE_ZIPFIAN_EXP"}


def test_every_variable_is_in_the_table():
    result = set()
    for path in (ROOT / "python/headrace").rglob("*.py"):
        result |= set(re.findall(r"\b(?:HEADRACE_[A-Z_]+|XDG_[A-Z_]+)\b", path.read_text()))
    assert result - HANDED_ON <= settings.VARIABLES.keys()


def test_a_value_is_given_or_the_default(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("HEADRACE_RUNS", "XDG_DATA_HOME", "HEADRACE_MYSQL_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    assert settings.get_folder("HEADRACE_RUNS") == tmp_path / ".local/share/headrace/runs"
    monkeypatch.setenv("XDG_DATA_HOME", "")  # as if it were not there
    assert settings.get_folder("HEADRACE_PROOFS") == tmp_path / ".local/share/headrace/proofs"
    monkeypatch.setenv("XDG_DATA_HOME", "/elsewhere")
    assert settings.get_folder("HEADRACE_PROOFS") == Path("/elsewhere/headrace/proofs")
    monkeypatch.setenv("HEADRACE_RUNS", "runs")
    monkeypatch.chdir(tmp_path)
    assert settings.get_folder("HEADRACE_RUNS") == tmp_path / "runs"


def test_words_show_what_counts_and_no_secret(monkeypatch):
    monkeypatch.setenv("HEADRACE_MYSQL_PASSWORD", "hush")
    monkeypatch.setenv("HEADRACE_SERVERS", "/srv")
    monkeypatch.delenv("HEADRACE_DEBIAN_MIRROR", raising=False)
    rows = {name: result for name, result, _ in settings.describe_variables()}
    assert rows["HEADRACE_SERVERS"] == "/srv" and rows["HEADRACE_MYSQL_PASSWORD"] == "set"
    assert rows["HEADRACE_DEBIAN_MIRROR"].endswith(" (default)")
