"""Runs as pages and charts, and the commands that show them."""

from __future__ import annotations

import json
import re

import polars as pl
import pytest
from bench_runs import keep, series, store_in

from headrace.bench import compare as compare_runs
from headrace.cli.main import main
from headrace.report import benchmarks
from headrace.report.charts import builders, style
from headrace.report.charts import runs as charts
from headrace.report.html import write_view


def texts(svg: str) -> str:
    return " ".join(re.findall(r">([^<>]+)</text>", svg))


def test_a_run_as_a_page_and_as_charts(tmp_path):
    record = keep(store_in(tmp_path), findings=["The machine was <busy> & late."])
    for name in ("run.html", "run.svg", "run.png"):
        write_view(tmp_path / name, benchmarks.build_view(record))
    page = (tmp_path / "run.html").read_text()
    for words in (
        "transactions a second",
        "credit balance (%)",
        "limited by",
        "Seconds at each throughput",
        "Latency percentiles",
        "The machine was &lt;busy&gt; &amp; late.",
    ):
        assert words in page
    assert "Shaded: 10 s of warm-up" in page and (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    drawn = texts((tmp_path / "run.svg").read_text())
    assert "IOPS" in drawn and "volume IOPS" in drawn and "instance IOPS" not in drawn


def test_what_was_not_measured_is_not_drawn():
    frame = (
        series()
        .select("t_s", "duration_s", "t_unix", "phase", "threads", "tps", "qps")
        .with_columns(pl.lit(None, dtype=pl.Float64).alias("p95_ms"))
    )
    from headrace.report.charts.drawing import render_svg

    drawn = texts(render_svg(charts.draw_time_line(frame, "x")))
    assert (
        "transactions a second" in drawn
        and "p95 (ms)" not in drawn
        and "MiB/s" not in drawn
        and "limited by" not in drawn
    )


def test_charts_have_few_points_however_long_the_run():
    frame = series(seconds=5000, warmup=100)
    thin = builders.thin_rows(frame)
    assert thin.height <= builders.MOST_POINTS and thin["tps"].mean() == pytest.approx(frame["tps"].mean(), rel=1e-2)
    # Times are kept: the thinned rows cover what the rows did.
    assert thin["t_s"][-1] + thin["duration_s"][-1] == frame["t_s"][-1] + 1.0


def test_a_run_that_does_not_vary_has_no_density():
    assert charts.draw_spread([("x", series(500.0, 0.0), style.MEASURED)]) is None
    assert charts.draw_spread([("x", series(500.0, 5.0, seconds=2), style.MEASURED)]) is None


def test_two_runs_as_a_page(tmp_path):
    store = store_in(tmp_path)
    runs = compare_runs(keep(store, series(500.0)), keep(store, series(600.0, seed=4), storage="io2:100:5000"))
    write_view(tmp_path / "x.html", benchmarks.build_comparison_view(runs))
    page = (tmp_path / "x.html").read_text()
    assert (
        "Differs: storage: gp3:100 and io2:100:5000" in page and "95 % interval" in page and "higher (better)" in page
    )


# --- commands -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def runs(tmp_path, monkeypatch):
    store = store_in(tmp_path)
    monkeypatch.setenv("HEADRACE_RUNS", str(store.folder))
    return [keep(store, series(500.0, seed=1)), keep(store, series(600.0, seed=2), storage="io2:100:5000")]


def test_list_show_compare_and_export(runs, capsys, tmp_path):
    first, second = sorted(runs, key=lambda record: record.id)
    assert main(["bench", "list"]) == 0
    out = capsys.readouterr().out
    assert first.id in out and second.id in out and "io2:100:5000" in out
    assert main(["bench", "list", "--output", "csv", "--last", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith(second.id)
    assert main(["bench", "list", first.id, "--output", "json", "--report", str(tmp_path / "r.html")]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (
        answer["id"] == first.id
        and answer["summary"]["tps"] == pytest.approx(first.summary["tps"])
        and (tmp_path / "r.html").exists()
    )
    assert main(["bench", "list", "latest", "--output", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[0].startswith("t_s,duration_s,t_unix,phase")
    assert main(["bench", "compare", "latest~1", "latest", "--output", "json"]) == 0
    tps = json.loads(capsys.readouterr().out)["differences"][0]
    assert tps["name"] == "tps" and abs(tps["change_percent"]) > 10
    assert main(["bench", "compare", "latest~1", "latest", "--report", str(tmp_path / "c.html")]) == 0
    assert "95 % interval" in capsys.readouterr().out and (tmp_path / "c.html").exists()
    assert main(["bench", "export", "--sql", "SELECT storage FROM runs ORDER BY 1", "--output", "csv"]) == 0
    assert capsys.readouterr().out == "storage\ngp3:100\nio2:100:5000\n"
    assert main(["bench", "export", "--what", "series", "--to", str(tmp_path / "s.parquet"), second.id]) == 0
    assert pl.read_parquet(tmp_path / "s.parquet").height == 130


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["list", "nothing"], 2, "is not a run of this store"), (["list", "latest", "--report", "x.pdf"], 2, "a chart is written as"), (["compare", "latest", "latest"], 2, "on both sides"),
        (["compare", "latest", ","], 2, "one is compared with one"), (["export", "--sql", "SELECT", "--what", "series"], 2, "say what to export twice"),
        (["export", "--sql", "SELECT x"], 2, "DuckDB SQL"), (["export", "--to", "x.xls"], 2, "runs are exported as"), (["remove", "latest"], 2, "--yes"),
        (["run", "sysbench-oltp"], 2, "name one"), (["run", "sysbench-oltp", "mysql://u:secret@h/d"], 2, "holds a password"), (["run", "sysbench-oltp", "mysql://u@h/d", "--server", "db"], 2, "name one"),
        (["run", "sysbench-oltp", "mysql://u@h/d", "--script", "oltp_all"], 2, "must be one of"), (["run", "sysbench-oltp", "mysql://u@h/d", "--option", "x"], 2, "must be KEY=VALUE"),
        (["run", "sysbench-oltp", "mysql://u@h/d", "--parameter", "rand_spec_pct=much"], 2, "must be a number"), (["run", "tpcc", "mysql://u@h/d", "--threads", "0"], 2, "threads"),
        (["run", "fio", "--folder", "/nowhere"], 2, "neither a folder nor a block device"), (["run", "fio", "--folder", "/tmp", "--storage", "gp9:1"], 2, "gp9"),
        (["run", "sysbench-oltp", "mysql://u@/d?socket=/nowhere.sock"], 3, "no such socket"),
    ],
)  # fmt: skip
def test_bad_input_has_a_reason_and_no_traceback(runs, capsys, words, code, message):
    assert main(["bench", *words]) == code
    output = capsys.readouterr()
    assert message in output.err and "Traceback" not in output.err and "secret" not in output.err and output.out == ""


def test_runs_are_removed_when_that_is_said(runs, capsys):
    assert main(["bench", "remove", runs[0].id, "--yes"]) == 0
    assert not runs[0].folder.exists() and runs[1].folder.exists()
    assert main(["bench", "remove", runs[0].id, "--yes"]) == 2
    assert "is not a run of this store" in capsys.readouterr().err
    # Named twice, it is removed once, and nothing else with it.
    assert main(["bench", "remove", runs[1].id, "latest", "--yes"]) == 0
    assert capsys.readouterr().err.count("removed ") == 1


def test_tools_that_are_missing_are_notes_of_the_doctor(monkeypatch, tmp_path, capsys):
    """A lab runs without them, so they alone do not make it end with exit code 1."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("headrace.lab.doctor.examine", lambda *_: [])
    assert main(["lab", "doctor", "--output", "json"]) == 0
    rows = {row["what"]: row for row in json.loads(capsys.readouterr().out)}
    assert {name: row["state"] for name, row in rows.items()} == dict.fromkeys(("sysbench", "fio", "mysqlslap"), "note")
    assert "apt-get install" in rows["fio"]["do"]


def test_shell_completion_offers_runs(runs):
    import types

    from headrace.cli.bench.bench import complete_run

    assert complete_run(types.SimpleNamespace(params={"store": None}), "lat") == ["latest"]
    assert complete_run(types.SimpleNamespace(params={"store": None}), runs[0].id[:10])
