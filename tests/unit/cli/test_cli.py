"""The command line as a user meets it: help, exit codes, what goes to stdout, files that are never half-written."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import time

import pytest
from places import DATA, ROOT

from headrace import workload
from headrace.cli import main as cli
from headrace.cli.app import COMMANDS, list_commands

REPOSITORY = ROOT
_spec = importlib.util.spec_from_file_location("command_pages", ROOT / "packaging/command_pages.py")
command_pages = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(command_pages)

HEADRACE = [sys.executable, "-c", "from headrace.cli.main import run; run()"]


def process(*arguments: str, **settings) -> subprocess.CompletedProcess:
    return subprocess.run([*HEADRACE, *arguments], capture_output=True, text=True, timeout=60, **settings)


@pytest.fixture
def day(tmp_path) -> str:
    path = tmp_path / "day.toml"
    workload.save(workload.new_daily(700, 300, size_gib=100, name="shop"), path)
    return str(path)


def test_every_command_has_help_and_stands_in_the_reference(call):
    document = (REPOSITORY / "docs/reference/cli.md").read_text()
    assert document == command_pages.reference(), "run python packaging/command_pages.py docs/reference/cli.md"
    for name, _ in list_commands():
        code, out, err = call(*name.split()[1:], "--help")
        assert code == 0 and "Usage:" in out and not err, name
        if name != "headrace":
            assert f"\n## {name}\n" in document
    for _, command in list_commands():
        assert command.help
        assert all(
            getattr(param, "help", None)
            for param in command.params
            if param.name not in ("install_completion", "show_completion")
        ), command.name


def test_lines_of_the_help_are_whole_sentences(call):
    code, out, _ = call("--help")
    assert code == 0 and "..." not in out.partition("Commands:")[2]
    for name, (_, help) in COMMANDS.items():
        assert help.endswith(".") and help[0].isupper(), name


def test_the_reference_check_finds_drift(tmp_path, capsys):
    path = tmp_path / "cli.md"
    assert command_pages.main([str(path)]) == 0
    assert command_pages.main(["--check", str(path)]) == 0
    path.write_text(path.read_text() + "more\n")
    assert command_pages.main(["--check", str(path)]) == 1
    assert command_pages.main([]) == 2


def test_examples_of_the_help_are_commands_that_exist():
    names = {name for name, _ in list_commands()}
    examples = re.findall(r"^headrace .+$", command_pages.reference(), flags=re.MULTILINE)
    assert len(examples) > 12
    for example in examples:
        words = example.split()
        assert " ".join(words[:2]) in names or " ".join(words[:3]) in names, example


@pytest.mark.parametrize(
    ("typed", "suggested"),
    [("simulat", "simulate"), ("catalogue", "catalog"), ("catalog volume", "volumes"), ("plan demo:day --gaol x", "--goal"),
     ("simulate demo:day --storage gp2:1 --instance m5.larg", "m5.large"), ("simulate fio:rw=randraed --storage gp2:10", "randread"),
     ("simulate fio:rw=read,iodpth=3 --storage gp2:10", "iodepth"), ("catalog prices --region us-eas-1", "us-east-1"),
     ("plan demo:day --goal p99_s<=3", "p99_ms"), ("study gp2-brust", "gp2-burst")],
)  # fmt: skip
def test_a_slip_is_refused_with_what_was_meant(call, typed, suggested):
    code, out, err = call(*typed.split())
    assert code == 2 and out == ""
    assert err.startswith("error: ") and suggested in err.split("hint: ")[1]


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (("--size-gib", "116GB"), "--size-gib 116GB: must be a number, without a unit"),
        (("--free-percent", "25 %"), "--free-percent 25 %: must be a number from 0 to 90, without a unit"),
        (("--max-volumes", "many"), "--max-volumes many: must be a whole number from 1 to 128\n"),
    ],
)
def test_a_number_with_its_unit_is_told_so(call, typed, words):
    """`must be a number` was no reason: 116 is one, and the unit stands in the option's name."""
    code, _, err = call("plan", "demo:day", *typed)
    assert code == 2 and words in err


def test_errors_name_value_rule_source_and_hint(call):
    code, out, err = call("simulate", "demo:day", "--storage", "gp2:99999")
    assert (code, out) == (2, "")
    first, source, hint = err.splitlines()
    assert first == f"error: gp2:99999: a gp2 volume is 1 to 16384 GiB on {cli_newest()}"
    assert source.startswith("source: ") and hint.startswith("hint: ")


def cli_newest() -> str:
    from headrace.base import core

    return core.newest_date()


def test_simulate_csv_is_every_row_and_nothing_else():
    done = process(
        "simulate", "fio:rw=randread,bs=16k,iodepth=16", "--storage", "gp2:1000", "--seconds", "20", "--output", "csv"
    )
    assert done.returncode == 0 and done.stderr == ""
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(rows) == 20 and rows[7]["t_s"] == "7.0" and rows[7]["clock"] == "00:00:07"
    # 1,000 GiB have 3,000 IOPS (3 per GiB); after the saved second a closed load gets just those, within one request a row at each end.
    assert all(abs(float(row["iops"]) - 3000) <= 2 for row in rows[2:])


def test_simulate_json_is_one_document_with_no_nan():
    done = process("simulate", "demo:day", "--storage", "gp2:600", "--instance", "m5.large", "--output", "json")
    document = json.loads(done.stdout, parse_constant=lambda name: pytest.fail(name))
    assert document["schema"] == "headrace-simulation/1" and len(document["rows"]) == 1440
    assert document["summary"]["credits_empty_at_s"] > 0 and document["rows"][60]["clock"] == "01:00:00"
    assert any("burst bucket of m5.large does not run dry" in line for line in document["in_words"])


def test_simulate_answers_the_downsizing_question(call, tmp_path):
    # m5.large: 3,600 IOPS baseline, 18,750 for 30 minutes. 9,000 IOPS spend 5,400 a second of 27.27 M: dry after 84 min.
    path = tmp_path / "steady.toml"
    workload.save(workload.new_constant(9000, 0, read_kib=4, seconds=4 * 3600), path)
    code, out, _ = call(
        "simulate", str(path), "--storage", "gp3:200:16000:1000", "--instance", "m5.large", "--output", "json"
    )
    summary = json.loads(out)["summary"]
    assert code == 0
    bucket = (18_750 - 3_600) * 1_800
    # One row (60 s) of slack: the interval form notes the moment inside it.
    assert abs(summary["instance_empty_at_s"] - bucket / (9_000 - 3_600)) < 60
    _, words, _ = call("simulate", str(path), "--storage", "gp3:200:16000:1000", "--instance", "m5.large")
    assert "The EBS burst bucket of m5.large runs dry 01:24" in words


def test_same_seed_same_answer_and_another_seed_another():
    arguments = (
        "simulate",
        "fio:rw=randread,bs=16k,iodepth=4",
        "--storage",
        "gp3:100",
        "--seconds",
        "2",
        "--output",
        "csv",
    )
    entry, again, other = process(*arguments), process(*arguments), process(*arguments, "--seed", "2")
    assert entry.stdout == again.stdout != other.stdout


@pytest.mark.parametrize(
    ("options", "field", "changes"),
    [
        ("--xen", "delivered_ios", 1.025),
        ("--growth 2", "asked_ios", 2.0),
        ("--start-balance 0", "credits_empty_s", None),
        ("--no-saved-second", None, None),
    ],
)
def test_options_reach_the_model(call, day, options, field, changes):
    load = "fio:rw=randread,bs=16k,iodepth=64" if "--xen" in options else day
    base = (
        "simulate",
        load,
        "--storage",
        "gp2:100",
        "--output",
        "json",
        *(("--seconds", "30", "--no-saved-second") if "--xen" in options else ()),
    )
    before, after = (json.loads(call(*base, *extra)[1])["summary"] for extra in ((), options.split()))
    if changes is not None:
        # The last request of a run may fall either side of its end: one in 90,000.
        assert after[field] / before[field] == pytest.approx(changes, rel=1e-3)
    elif field is not None:
        assert after[field] > before[field]


def test_events_reach_the_model(call):
    base = (
        "simulate",
        "fio:rw=randread,bs=16k,iodepth=32",
        "--storage",
        "2xgp3:100",
        "--seconds",
        "30",
        "--output",
        "json",
    )
    whole = json.loads(call(*base)[1])["summary"]
    slow = json.loads(call(*base, "--degrade", "0:0:30:50")[1])["summary"]
    lost = json.loads(call(*base, "--lose-member", "1")[1])["summary"]
    # Half of one member, and a stripe waits for the slower one: between half and all.
    assert 0.45 * whole["delivered_ios"] < slow["delivered_ios"] < 0.8 * whole["delivered_ios"]
    assert lost["failed_ios"] > 0 == whole["failed_ios"]
    grown = json.loads(call(*base, "--modify", "2xgp3:100:6000@10..20")[1])
    assert grown["rows"][-1]["iops"] > 1.8 * grown["rows"][5]["iops"]


def test_workload_new_writes_a_file_once(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = (
        "workload",
        "new",
        "--name",
        "my shop",
        "--reads-per-s",
        "900",
        "--writes-per-s",
        "400",
        "--size-gib",
        "300",
    )
    code, out, err = call(*result)
    assert code == 0 and "written to my-shop.toml" in err and "900" not in err
    loaded = workload.load(tmp_path / "my-shop.toml")
    assert loaded == workload.new_daily(900, 400, name="my shop", size_gib=300)
    before = (tmp_path / "my-shop.toml").read_bytes()
    code, out, err = call(*result, "--shape", "flat")
    assert code == 2 and "exists already" in err and (tmp_path / "my-shop.toml").read_bytes() == before
    assert call(*result, "--shape", "flat", "--force")[0] == 0
    assert (tmp_path / "my-shop.toml").read_bytes() != before
    assert [path.name for path in tmp_path.iterdir()] == ["my-shop.toml"]


@pytest.mark.parametrize(
    "bad",
    ["--reads-per-s -1 --writes-per-s 1", "--reads-per-s nan --writes-per-s 1", "--writes-per-s 1", "--reads-per-s 1 --writes-per-s 1 --shape tuesday",
     "--reads-per-s 1 --writes-per-s 1 --backup-minutes 5", "--reads-per-s 1 --writes-per-s 1 --constant 60 --shape flat",
     "--reads-per-s 1 --writes-per-s 1 --days 0"],
)  # fmt: skip
def test_a_bad_workload_writes_nothing(call, tmp_path, bad):
    code, out, err = call("workload", "new", *bad.split(), "--to", str(tmp_path / "x.toml"))
    assert code == 2 and err.startswith("error: ") and out == "" and not list(tmp_path.iterdir())


def test_workload_new_asks_on_a_terminal(tmp_path):
    pty = pytest.importorskip("pty", reason="a terminal needs pty")
    path = tmp_path / "asked.toml"
    answers = "shop\nmany\n900\n400\n\n\n\n\n\n300\n\n"  # "many" is refused and asked again
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [*HEADRACE, "workload", "new", "--to", str(path)])
    os.write(terminal, answers.encode())
    details = b""
    try:
        while chunk := os.read(terminal, 4096):
            details += chunk
    except OSError:  # how Linux says that the other end has closed
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, details.decode()
    assert b"must be a number" in details
    assert workload.load(path) == workload.new_daily(900, 400, name="shop", size_gib=300)


def test_import_and_show(call, tmp_path):
    recording = DATA / "iostat_12.txt"
    result = tmp_path / "db.toml"
    code, out, err = call(
        "workload", "import", str(recording), "--to", str(result), "--size-gib", "250", "--output", "json"
    )
    assert code == 0, err
    assert json.loads(out)["size_gib"] == 250
    code, out, _ = call("workload", "show", str(result))
    assert code == 0 and "IOPS" in out and "█" in out
    code, out, _ = call("workload", "show", str(result), "--output", "csv")
    assert out.startswith(
        "t_s,duration_s,reads_per_s,writes_per_s,read_kib,write_kib,read_await_ms,write_await_ms,queue,util_percent\n"
    )


def test_plan_ranks_and_says_why(call, day):
    code, out, err = call(
        "plan", day, "--goal", "p99_ms<=20", "--goal", "throttled_min<=0", "--compare", "gp2:400", "--output", "json"
    )
    assert code == 0 and err == ""
    document = json.loads(out)
    costs = [choice["cost_usd_month"] for choice in document["choices"]["winners"]]
    assert costs == sorted(costs) and all(choice["meets_goals"] for choice in document["choices"]["winners"])
    code, out, _ = call("plan", day, "--compare", "gp2:400", "--explain")
    assert code == 0 and "Why not the others" in out and "The arithmetic" in out and "gp2:400" in out
    _, out, _ = call("plan", day, "--output", "csv")
    assert next(csv.DictReader(io.StringIO(out)))["storage"] == document["choices"]["winners"][0]["storage"]


def test_a_goal_nothing_meets_exits_1_with_the_closest(call, day):
    code, out, err = call("plan", day, "--goal", "p99_ms<=0.001")
    assert code == 1 and "Nothing meets every goal. Closest: " in out and err == ""


def test_catalog_prints_source_and_date_and_marks_doubt(call):
    for command in ("volumes", "instances", "prices"):
        code, out, err = call("catalog", command, "--output", "json")
        rows = json.loads(out)
        assert code == 0 and err == "" and rows
        dated = {"volumes": ("source", "from"), "instances": ("as_of", "unconfirmed"), "prices": ("source", "as_of")}[
            command
        ]
        assert all(row[key] is not None for row in rows for key in dated)
    _, out, _ = call("catalog", "volumes", "--type", "st1")
    assert re.search(r"^st1 .* \? ", out, flags=re.MULTILINE) and "\n? st1 since" in out
    _, out, _ = call("catalog", "volumes", "--as-of", "2010-01-01", "--output", "csv")
    assert {row["volume_type"] for row in csv.DictReader(io.StringIO(out))} == {"standard", "instance-store"}


def test_tables_are_not_cut_without_a_terminal():
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    out = process("catalog", "volumes", "--type", "gp2", env=environment).stdout
    assert "…" not in out and "below 1,000 GiB burst to 3,000" in " ".join(out.split())


def test_interrupt_is_130(monkeypatch, call):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("headrace.simulation.demand.simulate", stop)
    code, out, err = call("simulate", "fio:rw=read", "--storage", "gp2:10")
    assert (code, out) == (130, "") and "interrupted" in err


def test_ctrl_c_stops_a_long_run():
    arguments = [*HEADRACE, "simulate", "demo:day", "--storage", "gp3:200:16000", "--form", "events"]
    running = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(1.5)
    running.send_signal(2)
    out, err = running.communicate(timeout=30)
    assert running.returncode == 130 and "Traceback" not in err and out == ""


def test_a_bug_is_one_line_and_3_unless_debugging(monkeypatch, call):
    monkeypatch.setattr("headrace.catalog.facts.sources", lambda: 1 / 0)
    monkeypatch.delenv("HEADRACE_DEBUG", raising=False)
    code, _, err = call("catalog", "sources")
    assert (
        code == 3 and err.count("\n") == 1 and "bug in headrace: ZeroDivisionError" in err and "HEADRACE_DEBUG=1" in err
    )
    monkeypatch.setenv("HEADRACE_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        cli.main(["catalog", "sources"])


def test_a_reader_that_goes_away_is_no_error():
    done = subprocess.run(f"{sys.executable} -c 'from headrace.cli.main import run; run()' catalog instances --output csv | head -1",
                          shell=True, capture_output=True, text=True, timeout=60)  # fmt: skip
    assert done.stdout.startswith("instance_type,") and done.stderr == ""


HEAVY = {
    "polars",
    "numpy",
    "scipy",
    "altair",
    "vl_convert",
    "duckdb",
    "pandas",
    "jinja2",
    "pymysql",
    "rich.progress",
    "rich.table",
}


def imported(*arguments: str, **environment: str) -> set[str]:
    """Modules that a command imports. Counted, because a clock would measure the machine."""
    command = [sys.executable, "-X", "importtime", "-m", "headrace", *arguments]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=60)
    assert done.stdout
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}


@pytest.mark.parametrize(
    "command", ["", "plan", "simulate", "predict", "workload", "catalog", "lab up", "bench run fio", "mysql", "study"]
)
def test_help_imports_little(command):
    result = imported(*command.split(), "--help")
    assert not result & HEAVY
    # The modules of other commands are not imported at all.
    groups = {name for name in result if re.fullmatch(r"headrace\.cli\.(model|workloads|lab|bench|servers)", name)}
    assert len(groups) <= (0 if not command else 1)
    # Those of the command line itself (extras, options and those of groups, lazy imports, files to write, the encoder
    # of results), the lab's place and defaults, and `lab key` with the files of keys.
    assert len([name for name in result if name.startswith("headrace")]) <= 27


@pytest.mark.parametrize(
    "line",
    ["headrace sim", "headrace simulate x --st", "headrace simulate x --storage g", "headrace simulate x --instance m5.l",
     "headrace catalog prices --region eu-", "headrace catalog volumes --type g", "headrace workload import --form", "headrace bench run fio --b",
     "headrace bench list l"],
)  # fmt: skip
def test_a_tab_imports_little(line):
    result = imported(_HEADRACE_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(line.count(" ")))
    assert not result & HEAVY


def test_version_says_how_old_the_catalog_is(call):
    code, out, _ = call("--version")
    assert code == 0 and re.fullmatch(r"headrace \d+\.\d+\.\d+, catalog of \d{4}-\d\d-\d\d\n", out)


def test_completion_knows_types_regions_and_instances():
    def complete(line: str) -> str:
        words = line.split(" ")
        environment = os.environ | {
            "_HEADRACE_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
        }
        return process(env=environment).stdout

    assert "gp2" in complete("headrace catalog volumes --type g").split()
    assert "eu-west-1" in complete("headrace catalog prices --region eu-").split()
    assert "m5.large" in complete("headrace simulate x --instance m5.l").split()
    assert "gp2-burst" in complete("headrace study gp2").split()
