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

from headrace.base.checks import read_percent
from headrace.cli import main as cli
from headrace.cli.lab import common
from headrace.cli.options import complete_volume
from headrace.cli.output import print_csv
from headrace.errors import CouldNotRun, InputError
from headrace.lab import balances, list_notes, metrics


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
    "lab status", "lab down", "volume create gp2:500", "volume create --copy-of db", "volume list", "volume list db", "volume attach db", "volume detach db", "volume delete db --yes",
    "volume modify db --size-gib 600", "volume modify", "volume balance db", "volume modify db --tag a=b", "volume fault db pause", "volume fault db",
    "volume fault db --clear all", "volume fault db fail --member 0", "volume metrics db", "watch lab:db --once", "volume record db start",
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
        ("volume create", "SPEC: is missing"),
        ("volume create --copy-of db --encrypted", "--copy-of db: takes SPEC, --name and --tag alone"),
        ("volume create raid0:2xgp3:5 --copy-of db", "is an array, and a copy is a single volume"),
        ("volume modify --tag a=b", "VOL: is missing"),
        ("volume fault db --seconds 5", "no kind of it"),
        ("volume fault db pause --clear all", "begin a fault and end one"),
        ("volume fault db pause --mib-s 5", "belongs to replace"),
        ("volume fault db fail", "Name it: --member N"),
        ("volume metrics db --binary", "Give --nvme"),
        ("volume metrics db --nvme --minutes 3", "without a time"),
        ("snapshot modify snap-1", "has no change named"),
        ("snapshot modify snap-1 --lock-days 1 --unlock", "exclude each other"),
        ("snapshot rule --days 7", "NAME: is missing"),
        ("snapshot rule keep", "a rule has --days, or goes with --remove"),
        ("snapshot schedule daily --every 1d --remove", "a schedule has --every, or goes with --remove"),
        ("snapshot list snap-1 --volume db", "name one snapshot, and several"),
        ("snapshot take db --keep 7", "--keep: belongs to --every"),
        ("lab user --remove", "NAME: is missing"),
        ("lab user ann", "a user has --policy, or goes with --remove"),
        ("lab key state k disabled --days 7", "belongs to pending-deletion"),
        ("lab key create --from k.key --tag a=b", "is a whole key"),
        ("mysql down db --channel x --mount", "leaves the server up"),
        ("mysql up g --group 3 --flavor mysql --port 0", "--port: is not for a group"),
        ("mysql up g --group 3 --flavor mysql --from snap-1", "--from: is not for a group"),
        ("volume balance db --set 5 --save x", "only one"),
        ("volume balance db --member 1", "belongs to --set"),
        ("volume balance db --load nothing.json", "cannot be read"),
        ("volume balance db --load .", "cannot be read"),
        ("volume fault db melt", "melt"),
        ("volume fault db latency --extra-ms -1", "--extra-ms"),
        ("volume fault db latency --op sideways", "sideways"),
        ("volume fault db degraded --caps lots", "percentage"),
        ("volume fault db slow --member 0", "needs --caps"),
        ("volume fault db fail --member 0 --caps 5%", "--caps with fail: is not a setting of it"),
        ("volume fault db slow --member 0 --caps 5 --mib-s 3", "--mib-s with slow"),
        ("volume fault db fail --member -1", "-1"),
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
    "lab", "volume", "up", "down", "status", "doctor", "create", "list", "attach", "detach", "delete", "modify", "balance", "metrics",
    "record", "fault", "user", "all", "--clear", "--copy-of", "--remove-tag", "--nvme", "db", "gp2:500", "raid10:4xgp3:500", "--name", "--tag", "--start-balance", "--attach", "--as-of",
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
    assert read_percent(f"{value:.6f}{sign}", "--x") == value


@given(st.text(max_size=12))
def test_percent_is_a_percentage_or_refused(text):
    with contextlib.suppress(InputError):
        assert 0 <= read_percent(text, "--x") <= 100


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
    rows = [common.make_volume_row(volume) for volume in (VOLUME, ATTACHED)]
    print_csv(rows, common.VOLUME_CSV)
    text = capsys.readouterr().out
    read = list(csv.DictReader(io.StringIO(text)))
    assert [row["device"] for row in read] == ["", "/dev/loop3"]
    assert json.loads(read[0]["tags"]) == {"a": "b,c"}
    print_csv([], common.VOLUME_CSV)
    assert capsys.readouterr().out == text.splitlines()[0] + "\n"


def test_state_says_what_is_not_as_usual():
    assert common.format_state_cell(VOLUME) == "available"
    assert common.format_state_cell(ATTACHED) == "in-use, busy, optimizing 40 %, member 1 failed"


def test_notes_of_a_status():
    assert (
        list_notes({})
        == []
        == list_notes(
            {"leftovers": {"released": 0, "unmounted": 0, "busy": []}, "recording": None, "metrics_rows_lost": 0}
        )
    )
    lines = list_notes(
        {
            "journal_repaired": "12 bytes",
            "leftovers": {"released": 1, "unmounted": 1, "busy": ["/dev/loop4"]},
            "metrics_rows_lost": 3,
        }
    )
    assert len(lines) == 4 and "/dev/loop4" in lines[2]


# --- rates and credits ----------------------------------------------------------------------------

COLUMNS = (
    "t_s", "reads", "writes", "read_bytes", "write_bytes", "queue_mean", "balance_percent", "volume_iops_exceeded_us", "read_p50_us", "read_p99_us",
    "write_p50_us", "write_p99_us", "span_us", "read_time_us", "consumed_ops",
)  # fmt: skip


def test_a_minute_in_rates():
    """The volume was attached for half of the minute."""
    row = [60, 3000, 0, 300 << 20, 0, 1.5, 99.0, 15_000_000, 500.0, 2500.0, None, None, 30_000_000, 7_500_000, 6000]
    (figures,) = metrics.convert_volume_rows({"columns": list(COLUMNS), "rows": [row]}).values()
    names = ("read_iops", "read_mib_s", "queue", "over_volume_iops", "balance_percent", "read_p50_ms", "read_p99_ms")
    assert [figures[name] for name in names] == [100, 10, 1.5, 0.5, 99, 0.5, 2.5]
    assert (figures["read_ms"], figures["charged_iops"]) == (2.5, 200)
    assert figures["write_p50_ms"] is None and figures["write_ms"] is None, "a zero of no I/O is no fast disk"


def test_stretches():
    assert metrics.choose_stretch(None, None, None) == ("second", 60)
    assert metrics.choose_stretch(None, 10, None) == ("minute", 10)
    assert metrics.choose_stretch(90, None, "minute") == ("minute", 2)
    assert metrics.choose_stretch(None, 10, "second") == ("second", 600)


def test_frame_keeps_columns_without_rows():
    assert metrics.build_frame({"columns": list(COLUMNS), "rows": []}).columns == list(COLUMNS)
    late = metrics.build_frame({"columns": ["t_s", "x"], "rows": [[i, None] for i in range(200)] + [[200, 1.5]]})
    assert late["x"][-1] == 1.5


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
    assert metrics.describe_time(seconds) == text


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
