"""`headrace.plan` under a type checker: its arguments are those it takes, and README's way to a plan has no error."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

import headrace
from headrace.planner.candidates import check_exclude

CHECKER = shutil.which("basedpyright", path=str(Path(sys.executable).parent))
# Line by line; "#!" marks those that must be refused.
SCRIPT = """\
import headrace

day = headrace.load_demand("examples/innodb-tpcc-day.toml")
plan = headrace.plan(day, goals=["p99_ms<=20", "throttled_min<=0"], exclude="gp2,io1")
if plan.recommended is not None:
    print(plan.recommended.storage, headrace.simulate(day, plan.recommended.storage).describe_briefly())
shop = headrace.load_database("shop.toml")
print(headrace.plan(shop, goals="tps>=300", hours=2.0).describe_briefly(), headrace.predict(shop, "gp3:500").describe_briefly())
headrace.plan(day, gols=["p99_ms<=20"])  #!
headrace.plan(day, max_volumes="8")  #!
headrace.plan_against(shop, shop, goals="tps>=300", hour=2.0)  #!
"""


@pytest.mark.skipif(CHECKER is None, reason="no basedpyright in this environment")
def test_a_type_checker_takes_the_readme_and_finds_typos(tmp_path):
    path = tmp_path / "plan.py"
    path.write_text(SCRIPT)
    words = [CHECKER, "--outputjson", "--pythonpath", sys.executable, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, cwd=ROOT)
    general_diagnostics = json.loads(done.stdout)["generalDiagnostics"]
    lines = {
        general_diagnostic["range"]["start"]["line"]
        for general_diagnostic in general_diagnostics
        if general_diagnostic["severity"] == "error"
    }
    assert lines == {number for number, line in enumerate(SCRIPT.splitlines()) if line.endswith("#!")}, (
        general_diagnostics
    )


def test_a_file_is_loaded_as_what_it_is(tmp_path):
    day, shop = headrace.demo_day(), headrace.sysbench_tpcc(warehouses=10, cache_gib=1, threads=4)
    headrace.save(day, tmp_path / "day.toml")
    headrace.save(shop, tmp_path / "shop.toml")
    assert headrace.load_demand(tmp_path / "day.toml").name == day.name
    assert headrace.load_database(tmp_path / "shop.toml").name == shop.name
    with pytest.raises(headrace.InputError, match="is a database in transactions"):
        headrace.load_demand(tmp_path / "shop.toml")
    with pytest.raises(headrace.InputError, match="is demand in I/Os"):
        headrace.load_database(tmp_path / "day.toml")


def test_excluded_types_are_taken_as_text_too():
    assert check_exclude("gp2, io1") == check_exclude(["gp2", "io1"]) == frozenset({"gp2", "io1"})
    assert check_exclude("") == check_exclude(()) == frozenset()
    with pytest.raises(headrace.InputError, match="neither a volume type"):
        check_exclude("gp2,gp4")
