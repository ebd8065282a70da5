"""`headrace prove` on the command line: refusals, --show, reports."""

from __future__ import annotations

import json

import pytest
import typer
from test_prove import SHOP, proof, step
from typer.testing import CliRunner

import headrace
from headrace.cli.model import prove as command
from headrace.errors import HeadraceError
from headrace.experiment import proof as proofs
from headrace.report import proof as words
from headrace.report.html import write_view

APP = typer.Typer()
APP.command("prove")(command.prove)


def invoke(*arguments: str):
    return CliRunner().invoke(APP, list(arguments))


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((), "needed"),
        (("plan.json", "--show", "x"), "needed"),
        (("sysbench-tpcc:warehouses=100,cache_gib=2,threads=4",), "storages"),
        (("demo:day", "--storage", "gp3:500"), "not a database in transactions"),
        (("sysbench-tpcc:warehouses=100,cache_gib=2,threads=4", "--storage", "gp9:5"), "gp9"),
        (("sysbench-tpcc:warehouses=100,cache_gib=2,threads=4", "--storage", "gp3:500", "--scale", "7"), "scale"),
        (("sysbench-tpcc:warehouses=100,cache_gib=2,threads=4", "--storage", "gp3:500", "--workload", "x"), "--workload"),
        (("none.toml", "--storage", "gp3:500"), "none.toml"),
        (("x", "--report", "page.pdf"), "page.pdf"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_words(arguments, word):
    result = invoke(*arguments)
    assert isinstance(result.exception, HeadraceError), result.output
    assert word in str(result.exception)


def test_a_plan_takes_no_storages(tmp_path):
    answer = headrace.plan(SHOP, goals=["tps>=10"], instances=["r6i.large"], max_volumes=1, draws=1)
    (tmp_path / "plan.json").write_text(json.dumps(answer.to_dict()))
    result = invoke(str(tmp_path / "plan.json"), "--storage", "gp3:500")
    assert "a plan names its own" in str(result.exception)


@pytest.mark.parametrize(("tps", "code"), [(98.0, 0), (60.0, 1)])
def test_show_and_its_exit_code(tmp_path, tps, code):
    proofs.write(
        proof(
            step("a", 100.0, tps),
            folder=str(tmp_path),
            predictions=proofs.StoredPredictions("p.json", "ab" * 32, "2026-11-21T00:00:00+00:00"),
        )
    )
    result = invoke("--show", str(tmp_path), "--report", str(tmp_path / "page.html"))
    assert result.exit_code == code
    assert ("holds" if code == 0 else "OFF") in result.output and "ab" * 32 in result.output
    page = (tmp_path / "page.html").read_text()
    # Each of the three charts stands there twice: for a wide screen and for a phone.
    assert page.count("<figure role") == 3 and page.count("<svg") == 6 and "measured" in page
    as_json = invoke("--show", str(tmp_path), "--output", "json")
    assert json.loads(as_json.stdout)["schema"] == "headrace-proof/1"
    as_csv = invoke("--show", str(tmp_path), "--output", "csv")
    assert as_csv.stdout.splitlines()[0].startswith("role,name,storage_full,storage")


def test_a_proof_cut_short_can_be_shown(tmp_path):
    result = proof(
        step("a", 100.0, 98.0, state="interrupted"), step("b", 200.0, None), folder=str(tmp_path), state="interrupted"
    )
    write_view(tmp_path / "page.html", words.build_view(result))
    text = (tmp_path / "page.html").read_text()
    assert "interrupted" in text and "not run" in text and "cannot be told" in text
