"""iostat as people post it, without -t: read by every command with the interval said, or with the command line that was copied
along; hints name options that the command has."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

from headrace.errors import InputError
from headrace.observe.formats import import_file

BANNER = "Linux 5.10.0-1160 (db1)  11/21/2025  _x86_64_  (8 CPU)\n\n"
HEADER = "Device            r/s     w/s     rkB/s     wkB/s r_await w_await aqu-sz rareq-sz wareq-sz  %util\n"


def report(reads: float, await_ms: float = 0.5) -> str:
    """A table of one device: reads of 16 KiB, 90 writes of 24 KiB a second."""
    return (
        f"{HEADER}nvme1n1 {reads:10.2f}   90.00 {16 * reads:10.2f}   2160.00 {await_ms:8.2f}    0.72   "
        f"1.80    16.00    24.00  88.40\n\n"
    )


def posted(reports: int = 30, command: str = "", end: str = "") -> str:
    """Output of iostat -x 10: the first report is the mean since boot."""
    return command + BANNER + "".join(report(40.0 + number) for number in range(reports)) + end


@pytest.fixture
def stdin(monkeypatch):
    """Puts a text on standard input."""

    def put(text: str) -> str:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
        return "-"

    return put


# Commands that read recordings, with what they need besides; what they do with one of five minutes.
COMMANDS = {
    "doctor": (("doctor",), ("--storage", "gp3:100"), 0),
    "watch": (("watch", "--once"), ("--storage", "gp3:100"), 3),
    "import": (("workload", "import"), ("--to", "x.toml"), 0),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_hint_names_an_option_of_that_very_command(call, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "posted.txt").write_text(posted())
    words, more, code = COMMANDS[name]
    refused, out, err = call(*words, "posted.txt", *more)
    assert refused == 2 and not out and "--interval 10" in err and "iostat -xt 10" in err
    read, out, err = call(*words, "posted.txt", *more, "--interval", "10")
    assert read == code and out and "error" not in err


@pytest.mark.parametrize("name", COMMANDS)
def test_standard_input_is_read(call, tmp_path, monkeypatch, stdin, name):
    monkeypatch.chdir(tmp_path)
    words, more, code = COMMANDS[name]
    read, out, err = call(*words, stdin(posted()), *more, "--interval", "10", "--clock-start", "2026-11-20T10:00:00")
    assert read == code and out and "error" not in err
    assert "standard input" in out


@pytest.mark.parametrize("name", COMMANDS)
def test_a_clock_start_other_than_the_times_of_a_recording_is_refused(call, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    text = "".join(f"11/20/2026 12:{minute:02}:00 AM\n{report(40.0 + minute)}" for minute in range(5))
    (tmp_path / "timed.txt").write_text(BANNER + text)
    words, more, _ = COMMANDS[name]
    refused, out, err = call(*words, "timed.txt", *more, "--clock-start", "1999-01-01T10:00:00")
    assert (refused, out) == (
        2,
        "",
    ) and "clock start 1999-01-01T10:00:00: the file's own times begin at 2026-11-20T" in err
    assert not (tmp_path / "x.toml").exists()


def test_doctor_tells_times_from_the_start_or_by_the_clock_that_is_given(call, tmp_path):
    """Reports 13 to 24 of 30 are at 3,000 IOPS and slow: two minutes to four minutes after the start."""
    rates = [(2910.0, 20.0) if 12 <= number < 24 else (400.0 + number, 0.5) for number in range(30)]
    text = BANNER + report(1.0) + "".join(report(*rate) for rate in rates)
    (tmp_path / "posted.txt").write_text(text)
    request = ("doctor", str(tmp_path / "posted.txt"), "--storage", "gp3:100", "--interval", "10")
    code, out, _ = call(*request)
    assert (
        code == 1 and "Clock: none: seconds from the start." in out and "2 min after the start" in " ".join(out.split())
    )
    code, out, _ = call(*request, "--clock-start", "2026-11-20T10:00:00")
    assert code == 1 and "From 2026-11-20 10:02:00 to 2026-11-20 10:04:00" in " ".join(out.split())


def test_forecast_of_standard_input(call, stdin):
    """Four days of an hour each."""
    answer = ("--storage", "gp2:100", "--no-keep", "--interval", "3600", "--clock-start", "2026-11-16T00:00")
    code, out, err = call("forecast", stdin(posted(97)), *answer)
    assert code in (0, 1) and "standard input on gp2:100" in out and "error" not in err


@pytest.mark.parametrize(
    ("command", "interval"),
    [
        ("[root@db1 ~]# iostat -dx 10 30\n", 10),
        ("$ iostat -xk nvme1n1 5\n", 5),
        ("% LC_ALL=C /usr/bin/iostat -x 60 > db1.txt\n", 60),
        ("iostat -x -d 1\n", 1),
    ],
)
def test_a_command_line_that_was_copied_tells_the_interval(tmp_path, command, interval):
    path = tmp_path / "posted.txt"
    path.write_text(posted(5, command, "[root@db1 ~]#\n"))
    workload = import_file(path)
    assert workload.source["period_s"] == interval and workload.points["reads_per_s"].to_list() == [41, 42, 43, 44]
    assert import_file(path, interval_s=interval).points.equals(workload.points)
    with pytest.raises(InputError, match="reports are"):
        import_file(path, interval_s=interval * 2)


def test_with_y_the_first_report_is_a_good_one(tmp_path):
    path = tmp_path / "posted.txt"
    path.write_text(posted(5, "# iostat -xy 10\n"))
    workload = import_file(path)
    assert workload.points["reads_per_s"].to_list() == [40, 41, 42, 43, 44]
    assert not any("since boot" in caveat for caveat in workload.caveats)


def test_a_command_line_without_an_interval_tells_none(tmp_path):
    path = tmp_path / "posted.txt"
    path.write_text(posted(5, "# iostat -x\n"))
    with pytest.raises(InputError, match="how many seconds"):
        import_file(path)


def test_two_command_lines_of_different_intervals_are_two_recordings(tmp_path):
    path = tmp_path / "posted.txt"
    path.write_text(posted(5, "# iostat -x 10\n") + posted(5, "# iostat -x 60\n"))
    with pytest.raises(InputError, match="the command line above it has 10 s") as caught:
        import_file(path)
    assert caught.value.hint and "line " in caught.value.value


def test_two_timed_reports_say_how_many_seconds_lie_between_them(tmp_path):
    """The first is the mean since boot: one is left, and the time of the first says when it began."""
    path = tmp_path / "posted.txt"
    path.write_text(f"{BANNER}11/21/25 10:00:00\n{report(40.0)}11/21/25 10:00:10\n{report(41.0)}")
    workload = import_file(path)
    assert workload.source["period_s"] == 10 and workload.source["clock_start"] == "2025-11-21T10:00:00"
    assert workload.points["duration_s"].to_list() == [10.0]


@pytest.mark.parametrize("command", ["doctor", "watch"])
def test_a_workload_file_is_no_recording(call, tmp_path, command):
    path = tmp_path / "shop.toml"
    path.write_text('format = "headrace-workload"\n')
    code, out, err = call(command, str(path), *(("--once",) if command == "watch" else ()))
    assert (
        code == 2 and not out and "read recordings, not workload files" in err and "forecast, plan and simulate" in err
    )
    code, _, err = call("workload", "import", str(path))
    assert code == 2 and "It needs no import: headrace plan" in err


def test_what_record_keeps_is_read_from_a_file(call, stdin):
    code, out, err = call("doctor", stdin('{"schema":"headrace-evidence/1","facts":{}}\n'))
    assert code == 2 and not out and "Name the file instead of -" in err


@pytest.mark.parametrize(
    ("target", "option", "message"),
    [
        ("posted.txt", ("--last", "3d"), "is for prometheus: and aws:"),
        ("aws:vol-0123456789abcdef0", ("--interval", "10"), "is for recordings without times"),
        ("prometheus:http://127.0.0.1:1", ("--clock-start", "2026-11-20T10:00"), "is for recordings without times"),
        ("posted.txt", ("--last", "3"), "with its unit"),
        ("posted.txt", ("--until", "noon"), "must be a date and time"),
    ],
)
@pytest.mark.parametrize("words", [("doctor",), ("forecast",), ("workload", "import")])
def test_options_of_another_kind_of_target_are_refused(call, tmp_path, monkeypatch, words, target, option, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "posted.txt").write_text(posted())
    code, out, err = call(*words, target, *option)
    assert code == 2 and not out and message in err
