"""`headrace plan` of a database as it is typed: outputs, exit codes, the page, and everything that is refused."""

from __future__ import annotations

import contextlib
import csv
import io
import json

import pytest
from headrace.planner.transactions import plan_transactions

import headrace
from headrace.calibrating import sysbench_tpcc
from headrace.cli import main as cli
from headrace.errors import InputError
from headrace.workload import new_constant, save

SHOP = "sysbench-tpcc:warehouses=100,cache_gib=8,threads=16"
LSM = "sysbench-tpcc:warehouses=100,cache_gib=2,threads=16,engine=myrocks"
# Two instances, gp3 alone: a second.
SMALL = (
    "--as-of",
    "2024-06-01",
    "--instances",
    "r6i.large,r6i.xlarge",
    "--exclude",
    "gp2,io1,io2,st1,sc1,instance-store,raid0,raid10",
    "--draws",
    "4",
)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADRACE_DEBUG", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)


def run(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(list(arguments))
    assert "Traceback" not in out.getvalue() + err.getvalue() and "bug in headrace" not in err.getvalue(), err.getvalue()
    return code, out.getvalue(), err.getvalue()


def plan(*arguments: str, load: str = SHOP) -> tuple[int, str, str]:
    return run("plan", load, *SMALL, *arguments)


def library():
    return plan_transactions(
        sysbench_tpcc(warehouses=100, engine="innodb", cache_gib=8, threads=16), goals=["tps>=300"], as_of="2024-06-01", instances=["r6i.large", "r6i.xlarge"],
        exclude=["gp2", "io1", "io2", "st1", "sc1", "instance-store", "raid0", "raid10"], draws=4,
    )  # fmt: skip


def test_the_table_leads_with_the_answer():
    code, out, err = plan("--goal", "tps>=300")
    best = library().winner
    assert code == 0
    first = out.splitlines()[0]
    assert first.startswith(f"Cheapest that meets every goal with 80% or more: {best.place}, {best.cost_usd_month:,.2f} USD a month")
    for word in ("Why the others lost", "USD/month", "probability", "excluded by you", "note: "):
        assert word in out, word
    assert "\x1b" not in out and "The arithmetic" not in out
    assert "The arithmetic" in plan("--goal", "tps>=300", "--explain")[1]


def test_a_narrow_terminal_gets_a_table_that_fits_its_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    _, out, _ = plan("--goal", "tps>=300")
    table = out[out.index("rank") : out.index("Why the others lost")].splitlines()
    assert all(len(line) <= 120 for line in table)
    # A row needs no more than three lines, and no number is folded.
    best = library().winner
    assert len([line for line in table if line.strip()]) <= 1 + 3 * 3
    assert f"{best.cost_usd_month:,.2f}" in table[1]


def test_json_is_the_library_s_answer():
    code, out, _ = plan("--goal", "tps>=300", "--output", "json")
    answer = json.loads(out)
    assert code == 0 and answer.pop("schema") == "headrace-transaction-plan/1"
    assert answer == json.loads(json.dumps(library().to_dict()))


def test_csv_has_a_row_for_each_choice():
    code, out, _ = plan("--goal", "tps>=300", "--output", "csv", "--compare", "m5.xlarge+gp2:500")
    rows = list(csv.DictReader(io.StringIO(out)))
    found = library()
    assert code == 0 and [row["rank"] for row in rows][: len(found.winners)] == [str(i + 1) for i in range(len(found.winners))]
    assert (rows[0]["storage"], rows[0]["instance"]) == (found.winner.storage, found.winner.instance)
    for row in rows:
        parts = sum(float(row[f"{part}_usd_month"]) for part in ("instance", "data", "log"))
        assert float(row["cost_usd_month"]) == pytest.approx(parts)
    now = [row for row in rows if row["rank"] == "0"]
    assert len(now) == 1 and (now[0]["instance"], now[0]["storage"]) == ("m5.xlarge", "gp2:500")


def test_the_page_holds_answer_bill_arithmetic_and_caveats(tmp_path):
    page = tmp_path / "plan.html"
    code, _, err = plan("--goal", "tps>=300", "--report", str(page), "--compare", "gp2:500")
    text = page.read_text()
    best = library().winner
    assert code == 0 and "report written to" in err
    for word in (
        best.storage,
        f"{best.cost_usd_month:,.2f}",
        f"The bill of {best.place}",
        "The arithmetic",
        "What to know before buying",
        "<svg",
        "Today ",
    ):
        assert word in text, word
    assert "<script src" not in text and "http://" not in text.replace("http://www.w3.org", "")


def test_exit_code_1_and_the_closest_when_nothing_fits(tmp_path):
    code, out, err = plan("--goal", "tps>=5000", "--report", str(tmp_path / "none.html"))
    assert code == 1 and out.startswith("Nothing meets every goal. Closest: ") and "against 5,000" in out
    assert "What comes closest" in (tmp_path / "none.html").read_text()
    code, out, _ = plan("--goal", "tps>=5000", "--output", "json")
    assert code == 1 and json.loads(out)["winners"] == [] and json.loads(out)["closest"]
    code, out, _ = plan("--goal", "tps>=300", "--goal", "usd_month<=20")
    # Less than any instance costs: what the cheapest would cost is said.
    assert code == 1 and "monthly cost" in out.splitlines()[0] and "against 20" in out.splitlines()[0]


def test_two_databases_side_by_side(tmp_path):
    page = tmp_path / "both.html"
    code, out, _ = plan("--goal", "tps>=300", "--against", LSM, "--report", str(page))
    assert code == 0 and " wins: " in out.splitlines()[0] and page.read_text().count("The arithmetic") == 2
    code, out, _ = plan("--goal", "tps>=300", "--against", LSM, "--output", "csv")
    assert {row["engine"] for row in csv.DictReader(io.StringIO(out))} == {"innodb", "myrocks"}
    answer = json.loads(plan("--goal", "tps>=300", "--against", LSM, "--output", "json")[1])
    assert len(answer["plans"]) == 2 and answer["winner"] in (0, 1) and answer["words"]
    # One that meets the goals is enough for 0.
    code, out, _ = plan("--goal", "tps>=360", "--draws", "0", "--against", LSM, "--goal", "usd_month<=110")
    assert code == 0 and out.startswith("Only innodb meets the goals.")
    assert plan("--goal", "tps>=9000", "--against", LSM)[0] == 1


def test_arrivals_need_no_goal():
    code, out, _ = plan("--arrivals-tps", "200")
    assert code == 0 and "backlog_s<=1, 200 arriving a second" in out


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["no goal on performance", "tps>=300"]),
        (["--goal", "tpss>=300"], ["tpss", "tps"]),
        (["--goal", "p99_ms<=20"], ["no metric"]),
        (["--goal", "tps<=300"], ["better the more"]),
        (["--goal", "p95_ms>=50"], ["better the less"]),
        (["--goal", "tps>300"], ["only <= and >="]),
        (["--goal", "tps>=300/s"], ["not a number", "unit is in the metric's name"]),
        (["--goal", "tps>=fast"], ["not a number"]),
        (["--goal", "tps>=-5"], ["0 or more"]),
        (["--goal", "tps>=nan"], ["tps"]),
        (["--goal", "tps>=inf"], ["tps"]),
        (["--goal", "300"], ["METRIC"]),
        (["--goal", ""], ["METRIC"]),
        (["--goal", "p95_ms<=0"], ["no transaction takes no time"]),
        (["--goal", "usd_month<=500"], ["no goal on performance"]),
        (["--goal", "backlog_s<=1"], ["--arrivals-tps"]),
        (["--goal", "tps>=300", "--arrivals-tps", "250"], ["only 250"]),
        (["--arrivals-tps", "0"], ["arrivals_tps"]),
        (["--arrivals-tps", "-3"], ["arrivals_tps"]),
        (["--arrivals-tps", "nan"], ["arrivals_tps"]),
        (["--goal", "tps>=300", "--threads", "0"], ["threads"]),
        (["--goal", "tps>=300", "--start", "hot"], ["cold or warm"]),
        (["--goal", "tps>=300", "--hours", "0"], ["hours"]),
        (["--goal", "tps>=300", "--hours", "1e6"], ["hours"]),
        (["--goal", "tps>=300", "--confidence", "0.3"], ["confidence", "0.5"]),
        (["--goal", "tps>=300", "--confidence", "1"], ["confidence", "0.99"]),
        (["--goal", "tps>=300", "--confidence", "80"], ["confidence"]),
        (["--goal", "tps>=300", "--cache-share", "1.5"], ["cache_share"]),
        (["--goal", "tps>=300", "--draws", "-1"], ["draws"]),
        (["--goal", "tps>=300", "--draws", "5000"], ["draws"]),
        (["--goal", "tps>=300", "--seed", "-1"], ["seed"]),
        (["--goal", "tps>=300", "--instances", "r6i.lrge"], ["r6i.lrge", "r6i.large"]),
        (["--goal", "tps>=300", "--instances", "z9.*"], ["matches no instance"]),
        (["--goal", "tps>=300", "--exclude", "gp9"], ["neither a volume type"]),
        (["--goal", "tps>=300", "--region", "us-east-9"], ["region"]),
        (["--goal", "tps>=300", "--as-of", "2024-13-01"], ["2024-13-01"]),
        (["--goal", "tps>=300", "--size-gib", "0"], ["above 0"]),
        (["--goal", "tps>=300", "--growth", "0"], ["growth"]),
        (["--goal", "tps>=300", "--growth", "nan"], ["growth"]),
        (["--goal", "tps>=300", "--max-volumes", "0"], ["max_volumes"]),
        (["--goal", "tps>=300", "--start-balance", "101"], ["start_balance"]),
        (["--goal", "tps>=300", "--compare", "r6i.large"], ["INSTANCE+STORAGE"]),
        (["--goal", "tps>=300", "--compare", "r6i.large+gp2:1+gp2:2+gp2:3"], ["INSTANCE+STORAGE"]),
        (["--goal", "tps>=300", "--compare", "r6i.lrge+gp2:500"], ["r6i.lrge"]),
        (["--goal", "tps>=300", "--compare", "r6i.large+gp2:99999"], ["16384"]),
        (["--goal", "tps>=300", "--compare", "+"], ["INSTANCE+STORAGE"]),
        (["--goal", "tps>=300", "--report", "plan.pdf"], [".html"]),
        (["--goal", "tps>=300", "--against", "nowhere.toml"], ["nowhere.toml"]),
        (["--goal", "tps>=300", "--against", "fio:rw=randread"], ["is no database"]),
        (["--goal", "tps>=300", "--against", SHOP, "--size-gib", "100"], ["one size cannot hold"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(arguments, words):
    code, out, err = plan(*arguments)
    assert (code, out) == (2, ""), (code, out, err)
    assert err.startswith("error: ") and all(word in err for word in words), err


def test_instances_without_room_for_a_cache_are_told():
    code, _, err = run("plan", SHOP, "--goal", "tps>=300", "--instances", "t3.nano")
    assert code == 2 and "t3.nano" in err and "no instance has room for a cache" in err
    code, out, _ = plan("--goal", "tps>=300", "--instances", "t3.nano")
    assert code == 0 and "note: t3.nano was left out: 0.5 GiB of memory leave no 0.5 GiB of cache" in out


def test_files_that_are_not_there_or_no_workload(tmp_path):
    code, _, err = plan("--goal", "tps>=300", load="nowhere.toml")
    assert code in (2, 3) and "nowhere.toml" in err
    (tmp_path / "broken.toml").write_text('model = "mysql"\n[database\n')
    code, _, err = plan("--goal", "tps>=300", load="broken.toml")
    assert code == 2 and "broken.toml" in err
    code, _, err = plan("--goal", "tps>=300", load="sysbench-tpcc:warehouses=0,cache_gib=8,threads=16")
    assert code == 2 and "warehouses" in err


@pytest.mark.parametrize("option", [("--threads", "8"), ("--arrivals-tps", "8"), ("--start", "cold"), ("--hours", "2"), ("--cache-share", "0.5"), ("--confidence", "0.9"),
                                    ("--draws", "3"), ("--seed", "3"), ("--against", SHOP)])  # fmt: skip
def test_options_of_the_other_planner_are_refused(tmp_path, option):
    save(new_constant(100, 50, size_gib=50), tmp_path / "io.toml")
    code, out, err = run("plan", "io.toml", *option)
    assert (code, out) == (2, "") and option[0] in err and "belongs to plans for transactions" in err


def test_the_library_refuses_the_same():
    with pytest.raises(InputError, match="no goal"):
        headrace.plan(sysbench_tpcc(warehouses=1, cache_gib=1, threads=1), goals=[])
    for settings, word in (
        ({"goals": "tps>=300", "confidence": float("nan")}, "confidence"), ({"goals": ["tps>=300"], "confidence": True}, "confidence"),
        ({"goals": [None]}, "METRIC"), ({"goals": ["tps>=300"], "threads": 1.5}, "threads"), ({"goals": ["tps>=300"], "instances": []}, "no instance"),
        ({"goals": ["tps>=300"], "draws": 2.5}, "draws"), ({"goals": ["tps>=300"], "top": 0}, "top"), ({"goals": ["tps>=300"], "compare": 3}, "compare"),
        ({"goals": ["tps>=300"], "arrivals_tps": "many"}, "arrivals_tps"), ({"goals": ["tps>=300"], "hours": None}, "hours"),
        ({"goals": ["tps>=300"], "seed": "x"}, "seed"), ({"goals": ["tps>=300"], "cache_share": 0}, "cache_share"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=word):
            headrace.plan(sysbench_tpcc(warehouses=1, cache_gib=1, threads=1), **{"instances": ["r6i.large"]} | settings)
