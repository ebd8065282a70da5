"""`headrace lab` and `headrace volume` without a lab: arguments, refusals, tables; and the
arithmetic of rates and credits.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import types

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.cli import main as cli
from headrace.cli.lab import common
from headrace.cli.lab.metrics import live, plain_lines
from headrace.cli.options import complete_volume
from headrace.cli.output import print_csv
from headrace.errors import CouldNotRun, InputError
from headrace.lab import balances, metrics, notes
from headrace.lab.watching import Reading


@pytest.fixture(autouse=True)
def no_lab(tmp_path, monkeypatch):
    """A lab that is not up."""
    monkeypatch.setenv("HEADRACE_LAB", str(tmp_path / "lab"))
    monkeypatch.delenv("HEADRACE_DEBUG", raising=False)
    monkeypatch.chdir(tmp_path)


def call(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(list(arguments))
    return code, out.getvalue(), err.getvalue()


NEED_A_LAB = (
    "lab status", "lab down", "volume create gp2:500", "volume copy db", "volume list", "volume show db", "volume attach db", "volume detach db", "volume delete db --yes",
    "volume modify db --size-gib 600", "volume modifications", "volume balance db", "volume tag db a=b", "volume fault db pause", "volume faults db",
    "volume clear-fault db", "volume member db fail 0", "volume metrics db", "volume watch db", "volume record db start",
)  # fmt: skip


@pytest.mark.parametrize("line", NEED_A_LAB)
def test_without_a_lab_every_command_says_how_to_start_one(line):
    code, out, err = call(*line.split())
    assert (code, out) == (3, "")
    assert err.startswith("error: ") and "headrace lab up --lab" in err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("volume create gp2:500 --start-balance 101%", "0 to 100"),
        ("volume create gp2:500 --start-balance -5", "0 to 100"),
        ("volume create gp2:500 --start-balance nan", "0 to 100"),
        ("volume create gp2:500 --start-balance 5%%", "0 to 100"),
        ("volume create gp2:500 --tag a", "KEY=VALUE"),
        ("volume create gp2:500 --tag =b", "KEY=VALUE"),
        ("volume create gp2:500 --tag a=b --tag a=c", "before"),
        ("volume create", "missing argument"),
        ("volume tag db", "no tag"),
        ("volume balance db --set 5 --save x", "only one"),
        ("volume balance db --member 1", "belongs to --set"),
        ("volume balance db --load nothing.json", "cannot be read"),
        ("volume balance db --load .", "cannot be read"),
        ("volume fault db melt", "melt"),
        ("volume fault db latency --extra-ms -1", "--extra-ms"),
        ("volume fault db latency --op sideways", "sideways"),
        ("volume fault db degraded --caps lots", "percentage"),
        ("volume member db slow 0", "needs --caps"),
        ("volume member db fail 0 --caps 5%", "slow alone"),
        ("volume member db slow 0 --caps 5 --mib-s 3", "replace alone"),
        ("volume member db fail -1", "-1"),
        ("volume metrics db --seconds 5 --minutes 5", "twice"),
        ("volume metrics db --seconds 3601", "hour"),
        ("volume metrics db --minutes 21601", "15 days"),
        ("volume metrics db --minutes 61 --resolution second", "hour"),
        ("volume record db stop --to x", "start"),
        ("lab up --lab", "--lab"),
        ("lab up --time-scale 0", "--time-scale"),
        ("lab up --metrics-port 70000", "--metrics-port"),
        ("lab status --output yaml", "yaml"),
    ],
)
def test_bad_input_is_refused_before_any_lab_is_asked(line, words):
    code, out, err = call(*line.split())
    assert (code, out) == (2, "") and words in err, err


RANDOM_WORDS = (
    "lab", "volume", "up", "down", "status", "doctor", "create", "list", "show", "attach", "detach", "delete", "modify", "modifications", "balance", "metrics",
    "watch", "record", "fault", "faults", "clear-fault", "member", "tag", "db", "gp2:500", "raid10:4xgp3:500", "--name", "--tag", "--start-balance", "--attach", "--as-of",
    "--force", "--yes", "--unpaced", "--no-probe", "--size-gib", "--type", "--iops", "--mib-s", "--wait", "--set", "--save", "--load", "--member", "--in", "--seconds",
    "--extra-ms", "--every", "--op", "--caps", "--seed", "--minutes", "--resolution", "--to", "--remove", "--output", "--lab", "--socket", "--foreground",
    "--instance", "--time-scale", "--metrics-port", "--api-port", "--group", "start", "stop", "fail", "slow", "restore", "replace", "pause", "power-cut", "5%", "a=b", "json",
    "csv", "second", "minute", "nan", "-1", "0", "1", "1e999", "99999999999999999999", "/", "/dev/null", "", "\udcff", "\x1b[31m", "日本", "x" * 300,
)  # fmt: skip


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["lab", "volume"]),
    st.lists(st.one_of(st.sampled_from(RANDOM_WORDS), st.text(max_size=8)), max_size=7),
)
def test_random_words_never_give_a_traceback(tmp_path, group, words):
    with pytest.MonkeyPatch.context() as patched:
        # `lab up` must not start one; `/dev/null` and the like are no places for one either.
        patched.setenv("HEADRACED", str(tmp_path / "no-such-program"))
        code, out, err = call(group, *words)
    assert code in (0, 1, 2, 3), (words, code)
    assert "Traceback" not in out + err and "bug in headrace" not in err, (words, err)
    if code in (2, 3):
        assert (err.startswith("error: ") or "Usage:" in err) and "\x1b" not in err, (words, err)


def test_a_file_that_is_no_balance(tmp_path):
    for text in ("", "{}", '{"format": "other"}', "[" * 100_000, "\x00", "x" * (2 << 20)):
        (tmp_path / "b.json").write_text(text)
        code, _, err = call("volume", "balance", "db", "--load", "b.json")
        assert code == 2 and "not a saved balance" in err


def test_balances_go_through_a_file(tmp_path):
    state = {"format": "headrace-balance/1", "members": [{"percent": 5.0}, None]}
    balances.save({"members": [], "instance": None, "state": state}, tmp_path / "b.json")
    assert balances.load(tmp_path / "b.json") == state
    with pytest.raises(CouldNotRun):
        balances.save({"members": [], "instance": None, "state": state}, tmp_path / "no/b.json")


def test_doctor_needs_no_lab():
    """On any machine: rows with what to do, exit code 0 or 1, the same in each form."""
    codes = set()
    for output in ("json", "csv", "table"):
        code, out, err = call("lab", "doctor", "--output", output)
        codes.add(code)
        assert code in (0, 1) and not err and out
        if output != "table":
            rows = json.loads(out) if output == "json" else list(csv.DictReader(io.StringIO(out)))
            assert {row["state"] for row in rows} <= {"ok", "missing", "note"}
            assert all(row["do"] for row in rows if row["state"] == "missing")
            assert (code == 1) == any(row["state"] == "missing" for row in rows)
    assert len(codes) == 1


@given(st.floats(0, 100).map(lambda value: round(value, 6)), st.sampled_from(["", "%", " %"]))
def test_percent(value, sign):
    assert common.percent(f"{value:.6f}{sign}", "--x") == value


@given(st.text(max_size=12))
def test_percent_is_a_percentage_or_refused(text):
    with contextlib.suppress(InputError):
        assert 0 <= common.percent(text, "--x") <= 100


def test_completion_of_volumes_without_a_lab(tmp_path):
    context = types.SimpleNamespace(params={})
    assert complete_volume(context, "") == []
    context.params["data_dir"] = "x" * 300
    assert complete_volume(context, "") == []


# --- a volume in rows -----------------------------------------------------------------------------

VOLUME = {
    "id": "vol-1",
    "name": None,
    "spec": "gp2:500",
    "state": "available",
    "tags": {"a": "b,c"},
    "members": [],
    "attachment": None,
}
ATTACHED = VOLUME | {
    "state": "in-use",
    "attachment": {"state": "busy", "device": "/dev/loop3"},
    "modification": {"state": "optimizing", "progress_percent": 40},
    "members": [{"index": 0, "state": "ok"}, {"index": 1, "state": "failed"}],
}


def test_csv_has_the_same_columns_for_every_volume(capsys):
    rows = [common.volume_csv(volume) for volume in (VOLUME, ATTACHED)]
    print_csv(rows, common.VOLUME_CSV)
    text = capsys.readouterr().out
    read = list(csv.DictReader(io.StringIO(text)))
    assert [row["device"] for row in read] == ["", "/dev/loop3"]
    assert json.loads(read[0]["tags"]) == {"a": "b,c"}
    print_csv([], common.VOLUME_CSV)
    assert capsys.readouterr().out == text.splitlines()[0] + "\n"


def test_state_says_what_is_not_as_usual():
    assert common.state_cell(VOLUME) == "available"
    assert common.state_cell(ATTACHED) == "in-use, busy, optimizing 40 %, member 1 failed"


def test_notes_of_a_status():
    assert (
        notes({})
        == []
        == notes({"leftovers": {"released": 0, "unmounted": 0, "busy": []}, "recording": None, "metrics_rows_lost": 0})
    )
    said = notes(
        {
            "journal_repaired": "12 bytes",
            "leftovers": {"released": 1, "unmounted": 1, "busy": ["/dev/loop4"]},
            "metrics_rows_lost": 3,
        }
    )
    assert len(said) == 4 and "/dev/loop4" in said[2]


# --- rates and credits ----------------------------------------------------------------------------

COLUMNS = (
    "t_s", "reads", "writes", "read_bytes", "write_bytes", "queue_mean", "balance_percent", "volume_iops_exceeded_us", "read_p50_us", "read_p99_us",
    "write_p50_us", "write_p99_us",
)  # fmt: skip


def test_a_minute_in_rates():
    row = [60, 6000, 0, 600 << 20, 0, 1.5, 99.0, 30_000_000, 500.0, 2500.0, None, None]
    rate = metrics.rates(COLUMNS, row, 60)
    assert (rate.iops, rate.mib_s, rate.queue, rate.exceeded_percent, rate.balance_percent) == (100, 10, 1.5, 50, 99)
    assert (rate.read_p50_ms, rate.read_p99_ms, rate.write_p50_ms) == (0.5, 2.5, None)


def test_stretches():
    assert metrics.stretch(None, None, None) == ("second", 60)
    assert metrics.stretch(None, 10, None) == ("minute", 10)
    assert metrics.stretch(90, None, "minute") == ("minute", 2)
    assert metrics.stretch(None, 10, "second") == ("second", 600)


def test_frame_keeps_columns_without_rows():
    assert metrics.frame({"columns": list(COLUMNS), "rows": []}).columns == list(COLUMNS)
    late = metrics.frame({"columns": ["t_s", "x"], "rows": [[i, None] for i in range(200)] + [[200, 1.5]]})
    assert late["x"][-1] == 1.5


def reading(*credits: float | None) -> dict:
    return {
        "members": [
            None if one is None else {"credits": one, "capacity": 5_400_000, "percent": one / 54_000} for one in credits
        ]
    }


@given(st.floats(1_000, 5_000_000), st.floats(1, 3_000), st.integers(2, 30))
def test_time_to_empty_of_a_steady_load(start, per_second, count):
    emptying = metrics.MembersEmptying()
    left = [start - per_second * i for i in range(count)]
    for at, credits in enumerate(left):
        if credits > 540:
            emptying.add(at, reading(None, credits, 5_400_000))
    found = emptying.seconds()
    last = [credits for credits in left if credits > 540]
    if len(last) < 2:
        assert found is None
    else:
        # A slope of exact steps: nothing is lost but the rounding of doubles.
        assert found == pytest.approx(last[-1] / per_second, rel=1e-6)


def test_time_to_empty_knows_refill_empty_and_a_set_balance():
    emptying = metrics.MembersEmptying()
    assert emptying.seconds() is None
    for at in range(5):
        emptying.add(at, reading(1_000_000 + at))
    assert emptying.seconds() is None  # it fills
    emptying.add(5, reading(100_000))  # somebody set it: no load takes 900,000 credits in a second
    assert emptying.seconds() is None
    emptying.add(6, reading(99_000))
    assert emptying.seconds() == pytest.approx(99)
    emptying.add(7, reading(0))
    assert emptying.seconds() == 0
    emptying.add(8, reading(None))
    assert emptying.seconds() is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0, "empty"),
        (0.2, "1 s"),
        (119, "119 s"),
        (1800, "30 min"),
        (3600 * 5 + 600, "5 h 10 min"),
        (86400 * 9, "9 d"),
    ],
)
def test_times_in_words(seconds, text):
    assert metrics.time_text(seconds) == text


def watched(t_s: int) -> Reading:
    rate = metrics.rates(COLUMNS, [t_s, 3000, 0, 3000 << 14, 0, 16.0, 5.0, 0, 1000.0, 2000.0, None, None])
    return Reading(rate, 5.0, 270_000, 180.0)


def test_watch_writes_a_line_a_second_where_there_is_no_terminal(capsys):
    plain_lines(ATTACHED | {"name": "db\x1b[31m"}, iter([watched(1), watched(2)]))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and "\x1b" not in lines[0]
    assert lines[2].split()[1:6] == ["3,000", "3,000", "0", "46.9", "16.0"] and lines[2].endswith("3 min")


def test_watch_as_a_table(capsys):
    live(ATTACHED, iter([watched(second) for second in range(200)]))
    assert "balance" in capsys.readouterr().out


def test_ctrl_c_while_watching(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr("headrace.lab.Lab.describe", lambda self, volume: ATTACHED)
    monkeypatch.setattr("headrace.lab.watching.readings", interrupted)
    code, out, err = call("volume", "watch", "db")
    assert code == 130 and "Traceback" not in err and out.startswith("vol-1")


def test_delete_asks(monkeypatch):
    deleted = []
    monkeypatch.setattr("headrace.lab.Lab.describe", lambda self, volume: VOLUME)
    monkeypatch.setattr("headrace.lab.Lab.delete", lambda self, volume: deleted.append(volume))
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    code, _, err = call("volume", "delete", "db")
    assert code == 2 and "--yes" in err and not deleted  # no terminal to ask at
    monkeypatch.setattr(
        "sys.stdin", types.SimpleNamespace(isatty=lambda: True, readline=lambda *_: "n\n", read=lambda *_: "")
    )
    monkeypatch.setattr("typer.confirm", lambda *_, **__: False)
    assert call("volume", "delete", "db")[0] == 1 and not deleted
    assert call("volume", "delete", "db", "--yes")[0] == 0 and deleted == ["vol-1"]
