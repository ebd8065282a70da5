"""Results in Python: one line as text, a table and a chart in a notebook, a page in a file; what
cannot be is refused."""

from __future__ import annotations

import dataclasses
import datetime
import pickle
import re
from types import SimpleNamespace

import polars as pl
import pytest
from page_checks import checked
from places import ROOT
from test_prove import proof, step

import headrace
from headrace import HeadraceError, InputError
from headrace.report import databases
from headrace.report.benchmarks import build_conformance_view
from headrace.report.html import write_view

DAY = datetime.date(2018, 8, 15)


@pytest.fixture(scope="module")
def demand():
    return headrace.new_constant(900, 600, size_gib=200, seconds=7_200)


@pytest.fixture(scope="module")
def database():
    return headrace.sysbench_tpcc(warehouses=200, cache_gib=4, threads=8)


@pytest.fixture(scope="module")
def results(demand, database):
    plan = headrace.plan(demand, max_volumes=1, compare="gp2:300")
    return {
        "Plan": plan,
        "Choice": plan.recommended,
        "Simulation": headrace.simulate(demand, "gp2:300"),
        "Prediction": headrace.predict(database, "gp2:300", seconds=60, start="warm", draws=4),
        "OpenWorkload": demand,
        "TransactionWorkload": database,
        "ClosedWorkload": headrace.ClosedWorkload(name="fio", rw="randread", bs_kib=16, iodepth=16, numjobs=1),
        "StudyResult": headrace.run_study("queue-rule"),
    }


def test_a_result_is_one_short_line(results):
    for name, result in results.items():
        text = repr(result)
        assert text.startswith(f"{name}(") and len(text) <= 200 and "\n" not in text, text


def test_a_notebook_gets_a_table_or_a_list_and_a_chart(results, tmp_path):
    for name, result in results.items():
        html = result._repr_html_() if name != "ClosedWorkload" else headrace.report_html(result)
        (tmp_path / "x.html").write_text(html)
        text, page = checked(tmp_path / "x.html")  # whole, with nothing to fetch
        assert {"table", "ul"} & set(page.seen) and len(text) < 400_000
        drawn = name not in ("Choice", "ClosedWorkload", "TransactionWorkload")
        assert page.seen.count("svg") == drawn, name


def test_outputs_of_one_notebook_do_not_share_ids(results):
    html = results["Simulation"]._repr_html_() + results["Prediction"]._repr_html_() + results["Plan"]._repr_html_()
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert ids and len(ids) == len(set(ids))


@pytest.mark.parametrize("name", ["Plan", "Simulation", "Prediction", "StudyResult", "OpenWorkload"])
def test_a_result_is_written_as_a_page(results, tmp_path, name):
    headrace.write_report(results[name], str(tmp_path / "r.html"))
    _, page = checked(tmp_path / "r.html")
    assert "h1" in page.seen and "svg" in page.seen


def test_a_stretch_that_two_limits_bind_as_long_names_the_same_limit_each_time(results):
    run = results["Prediction"]
    caps = pl.Series("cap", ["volume-iops", "cpu"] * (run.rows.height // 2))
    table = databases.build_table(dataclasses.replace(run, rows=run.rows.with_columns(caps)), most=6)
    # Six stretches of ten seconds, five with each: the first by name stands for both.
    assert [row[-1] for row in table.rows] == ["processors"] * 6


def test_what_is_drawn_over_time_is_written_as_a_chart_too(results, tmp_path):
    headrace.write_report(results["Simulation"], tmp_path / "r.svg")
    assert (tmp_path / "r.svg").read_text().startswith("<svg")
    with pytest.raises(InputError, match=r"a page is written as .html"):
        headrace.write_report(results["Plan"], tmp_path / "r.svg")


def test_what_is_no_result_is_refused(results, tmp_path):
    for thing in (None, "gp3:500", 5, results["Simulation"].rows):
        with pytest.raises(InputError, match="is not a result that can be shown"):
            headrace.write_report(thing, tmp_path / "x.html")
    with pytest.raises(InputError, match="has no page of its own"):
        headrace.write_report(results["Choice"], tmp_path / "x.html")
    with pytest.raises(InputError, match="is not a file name"):
        headrace.write_report(results["Plan"], 5)


def test_results_can_be_compared_and_pickled(results):
    for name in ("Plan", "Simulation", "Prediction"):  # equal when they are one object
        result = results[name]
        assert result == result and result != pickle.loads(pickle.dumps(result)) and len({result, result}) == 1
    for name in ("Choice", "StudyResult"):  # equal by value
        assert results[name] == pickle.loads(pickle.dumps(results[name]))
    with pytest.raises(TypeError, match="unhashable"):
        hash(results["Choice"])


def test_the_frontier_is_a_frame(results):
    plan = results["Plan"]
    assert plan.choices.frontier.height > 5 and {"storage", "family", "cost_usd_month", "p99_ms"} <= set(
        plan.choices.frontier.columns
    )
    assert plan.to_dict()["choices"]["frontier"] == plan.choices.frontier.to_dicts()


def test_days_are_taken_as_dates_everywhere(demand, database):
    moment = datetime.datetime(2018, 8, 15, 12, 0)
    for day in (DAY, moment):
        assert headrace.volumes(day).equals(headrace.volumes("2018-08-15"))
        assert headrace.instances(day, family="m5.large").equals(headrace.instances("2018-08-15", family="m5.large"))
        assert headrace.prices(as_of=day).equals(headrace.prices(as_of="2018-08-15"))
        assert headrace.PriceList("us-east-1", day).as_of == "2018-08-15"
        assert headrace.simulate(demand, "gp2:300", as_of=day).as_of == "2018-08-15"
        assert headrace.predict(database, "gp2:300", as_of=day, seconds=10, draws=0).as_of == "2018-08-15"
    assert headrace.plan(demand, as_of=DAY, max_volumes=1).search.as_of == "2018-08-15"


BAD = [
    ("a demand by its name", lambda w, d: headrace.simulate("demo:day", "gp2:300")),
    ("no storage", lambda w, d: headrace.simulate(w, None)),
    ("a number for storage", lambda w, d: headrace.simulate(w, 500)),
    ("a seed of text", lambda w, d: headrace.simulate(w, "gp2:300", seed="a")),
    ("seconds of text", lambda w, d: headrace.simulate(w, "gp2:300", seconds="a")),
    ("rows of text", lambda w, d: headrace.simulate(w, "gp2:300", interval_s="a")),
    ("growth of text", lambda w, d: headrace.simulate(w, "gp2:300", growth="a")),
    ("a balance of text", lambda w, d: headrace.simulate(w, "gp2:300", start_balance="a")),
    ("a day of a number", lambda w, d: headrace.simulate(w, "gp2:300", as_of=2018)),
    ("an instance of a number", lambda w, d: headrace.simulate(w, "gp2:300", instance=5)),
    ("a form of a number", lambda w, d: headrace.simulate(w, "gp2:300", form=5)),
    ("a cycle of a number", lambda w, d: headrace.simulate(w, "gp2:300", cycle=5)),
    ("options of text", lambda w, d: headrace.simulate(w, "gp2:300", options="a")),
    ("a database simulated as a demand", lambda w, d: headrace.simulate(d, "gp2:300")),
    ("a demand predicted as a database", lambda w, d: headrace.predict(w, "gp2:300")),
    ("no storage for a database", lambda w, d: headrace.predict(d, None)),
    ("a seed of text for a database", lambda w, d: headrace.predict(d, "gp2:300", seed="a")),
    ("a start of a list", lambda w, d: headrace.predict(d, "gp2:300", start=[])),
    ("clients of text", lambda w, d: headrace.predict(d, "gp2:300", threads="a")),
    ("arrivals of text", lambda w, d: headrace.predict(d, "gp2:300", arrivals_tps="a")),
    ("a plan of a name", lambda w, d: headrace.plan("demo:day")),
    ("a goal of a number", lambda w, d: headrace.plan(w, goals=[5])),
    ("a seed of text for a plan", lambda w, d: headrace.plan(d, goals="tps>=1", seed="a")),
    ("a day of a number for a plan", lambda w, d: headrace.plan(w, as_of=2018)),
    ("a region of a number", lambda w, d: headrace.plan(w, region=5)),
    ("a storage of a number today", lambda w, d: headrace.plan(w, compare=5)),
    ("volumes of a number", lambda w, d: headrace.plan(w, max_volumes="a")),
    ("a cycle of a number for a plan", lambda w, d: headrace.plan(w, cycle=5)),
    ("instances of numbers", lambda w, d: headrace.plan(w, instances=[5])),
    ("a commitment of a number", lambda w, d: headrace.plan(w, commitment=5)),
    ("a day that is none", lambda w, d: headrace.volumes(2018)),
    ("a region of a number in prices", lambda w, d: headrace.prices(5)),
    ("a type of a number", lambda w, d: headrace.volumes(volume_type=5)),
    ("a family of a number", lambda w, d: headrace.instances(family=5)),
    ("a study of a number", lambda w, d: headrace.run_study(5)),
    ("a file of a number", lambda w, d: headrace.load(5)),
    ("a recording of a number", lambda w, d: headrace.import_file(5)),
    ("nothing to save", lambda w, d: headrace.save(None, "x.toml")),
    ("runs of a number", lambda w, d: headrace.calibrate([5])),
]


@pytest.mark.parametrize(("what", "call"), BAD, ids=[what for what, _ in BAD])
def test_errors_of_the_public_functions_are_ours(demand, database, what, call):
    with pytest.raises(HeadraceError) as caught:
        call(demand, database)
    error = caught.value
    assert error.value and error.rule, what


def test_the_example_notebook_runs_and_shows_tables_and_charts(tmp_path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    book = nbformat.read(ROOT / "examples/plan_in_a_notebook.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in book.cells), "outputs stay out of the repository"
    nbclient.NotebookClient(
        book, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs = [output["data"] for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    assert [data["text/plain"].partition("(")[0] for data in outputs[:3]] == ["OpenWorkload", "Simulation", "Plan"]
    assert all("<svg" in data["text/html"] for data in outputs[:3]) and "<table" in outputs[2]["text/html"]
    checked(tmp_path / "plan.html")


def test_a_proof_is_shown_and_written(tmp_path):
    example_proof = proof(step("a", 100.0, 98.0), step("b", 200.0, 240.0))
    headrace.write_report(example_proof, tmp_path / "proof.html")
    text, page = checked(tmp_path / "proof.html")
    assert text.count("<figure role") == 3 and "tps error" in text
    assert headrace.report_html(example_proof).count("<svg") == 1


def test_the_page_of_a_lab_s_conformance(tmp_path):
    case = {
        "spec": "gp3:500",
        "load": "16 KiB random reads, depth 1",
        "unit": "ms",
        "note": "",
        "allowed_percent": 10.0,
        "within": True,
    }
    figures = {"specified": None, "published": 0.6, "model": 0.55, "measured": 0.57, "error_percent": 3.6}
    cases = [SimpleNamespace(**case, **figures, what=what) for what in ("p50", "p99")]
    write_view(tmp_path / "lab.html", build_conformance_view(cases))
    text, page = checked(tmp_path / "lab.html")
    assert "2 of 2 figures with a tolerance are within it." in text and text.count("<figure role") == 1


def test_every_presentation_is_of_a_class_that_is_there():
    """Results are found by the name of their class: a class that is renamed would not be shown any more."""
    import headrace.experiment
    import headrace.planner
    from headrace.report.results import KINDS

    homes = (headrace, headrace.experiment, headrace.planner)
    assert not [name for name in KINDS if not any(isinstance(getattr(home, name, None), type) for home in homes)]
