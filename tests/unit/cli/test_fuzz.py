"""Every command with arguments nobody would think of: no traceback, no bug, no exit code but 0, 1, 2, 3 and 130; closed pipes; Ctrl-C at any moment.

Hypothesis draws the command lines: the same ones every time, others and far more of them with HYPOTHESIS_PROFILE=soak; it prints the line that fails and how
to run it again. Most lines run in this process; a sample runs in processes of their own. The machine's servers, devices and labs are out of reach.
"""

from __future__ import annotations

import contextlib
import enum
import io
import os
import random
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from places import DATA

from headrace import workload
from headrace.cli import main as cli
from headrace.cli.app import list_commands

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
HEADRACE = [sys.executable, "-m", "headrace"]
FINE = (0, 1, 2, 3, 130)
NOT_HEALTH = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]


def cases(usual: int, soak: int):
    # A line is short as it is; making it shorter would run the slow ones again and again.
    phases = (Phase.explicit, Phase.reuse, Phase.generate)
    return settings(
        max_examples=soak if SOAK else usual,
        deadline=None,
        print_blob=True,
        suppress_health_check=NOT_HEALTH,
        phases=phases,
    )


COMMANDS = {name: command for name, command in list_commands() if not getattr(command, "commands", None)}
# Commands that work for minutes if their arguments are right; each is run with a value that it must
# refuse, and its help in any case.
AT_WORK = (
    "headrace demo",
    "headrace study",
    "headrace prove",
    "headrace lab verify",
    "headrace mysql install",
    "headrace workload capture",
)

TYPES = ("gp2", "gp3", "io1", "io2", "io2-block-express", "st1", "sc1", "standard", "instance-store", "GP3", "gp4", "")
NUMBERS = st.one_of(
    st.sampled_from(
        [
            "0",
            "1",
            "-1",
            "0.5",
            "1e3",
            "nan",
            "inf",
            "-inf",
            "1e999",
            "-0.0",
            "1_000",
            "٣",
            "",
            " 7",
            "0x10",
            "99999999999999999999",
        ]
    ),
    st.integers(0, 20_000).map(str),
    st.floats(-10, 1e6).map(str),
)
# No NUL: the operating system takes no argument with one.
JUNK = st.one_of(
    st.text(st.characters(exclude_characters="\0"), max_size=10),
    st.sampled_from(["\x1b[31m", "../..", "/dev/null", "/dev/full", "a" * 300, "日本", "--", "-", "\udcff"]),
)
STORAGE = st.one_of(
    st.sampled_from(
        [
            "gp3:100",
            "2xgp2:50",
            "raid10:4xgp3:20:4000",
            "raid5:3xio1:100:500",
            "gp2:100+gp2:100@512k",
            " GP3:500\n",
            "raid6:4xgp3:5",
        ]
    ),
    st.builds(
        lambda level, count, kind, parts, chunk: (
            f"{level}{count}{kind}" + "".join(f":{part}" for part in parts) + chunk
        ),
        st.sampled_from(["", "", "raid0:", "raid1:", "raid5:", "raid6:", "raid10:", "raid10f2:", "RAID10:", ":"]),
        st.one_of(st.just(""), st.integers(0, 40).map(lambda count: f"{count}x")),
        st.sampled_from(TYPES),
        st.lists(NUMBERS, max_size=4),
        st.sampled_from(["", "", "@64k", "@512k", "@0k", "@", "+gp2:10", "+"]),
    ),
)
DATES = st.one_of(
    st.dates().map(str),
    st.sampled_from(["2018-08-15", "2020-06-01", "2018-02-30", "today", "0001-01-01", "9999-12-31"]),
)
GOALS = st.one_of(
    st.sampled_from(
        [
            "p99_ms<=20",
            "throttled_min<=0",
            "headroom_percent>=30",
            "tps>=300",
            "p95_ms<=250",
            "cost_usd_month<=50",
            "p99_ms>=3",
            "<=",
            "p99_ms<=nan",
        ]
    ),
    st.text("p9_ms<=>0.1e", max_size=14),
)
BY_NAME = {
    "storage": STORAGE, "log_storage": STORAGE, "compare": STORAGE, "current": STORAGE, "spec": STORAGE, "as_of": DATES, "goal": GOALS,
    "instance": st.sampled_from(["m5.large", "t3.nano", "x", "m5", "r6i.4xlarge", ""]), "instance_type": st.sampled_from(["m5.large", "nothing", ""]),
    "instances": st.sampled_from(["m5.large", "m5.*", "*", "", "["]), "region": st.sampled_from(["us-east-1", "us-gov-west-1", "eu-west-1", "moon", ""]),
    "family": st.sampled_from(["m5", "m5.large", "r6i.*", "[", "", "zz"]), "type": st.sampled_from(TYPES),
    "degrade": st.one_of(st.text("0123456789.:-en", max_size=20), st.just("0:1:2:50:3")), "modify": st.one_of(st.text("gp23:@.0159", max_size=20), st.just("gp3:100@1..2")),
    "address": st.sampled_from(["127.0.0.1:1", "root@127.0.0.1:1", "unix:/nowhere/mysql.sock", "", "::", "user:secret@host", "nowhere.invalid", "127.0.0.1:99999"]),
    "seconds": st.sampled_from(["1", "2", "0.5", "nan", "0", "-1", "5"]), "minutes": st.sampled_from(["0", "-1", "nan", "x"]),
}  # fmt: skip


def value_of(param, files: list[str]) -> st.SearchStrategy[str]:
    """A value for a parameter: of its kind three times in four, else junk."""
    annotation = getattr(getattr(param, "type_descriptor", None), "annotation", str)
    choices = (
        [str(entry.value) for entry in annotation]
        if isinstance(annotation, type) and issubclass(annotation, enum.Enum)
        else []
    )
    if param.name in BY_NAME:
        own = BY_NAME[param.name]
    elif choices:
        own = st.sampled_from(choices)
    elif "Path" in str(annotation):
        own = st.sampled_from([*files, "made.toml", "made.html", "made.svg", "none/made.html", "made.txt", "link.toml"])
    elif param.name == "workload":
        own = st.sampled_from(
            [
                *files,
                "demo:day",
                "demo:hour",
                "demo:night",
                "fio:rw=randread,bs=16k,iodepth=4",
                "fio:rw=read,bs=",
                "sysbench-tpcc:warehouses=10,cache_gib=1,threads=4",
            ]
        )
    elif "int" in str(annotation) or "float" in str(annotation):
        own = NUMBERS
    else:
        own = st.one_of(NUMBERS, st.sampled_from(["shop", "a b", *files]))
    return st.one_of(own, own, own, JUNK)


@st.composite
def lines(draw, files: list[str], names=tuple(COMMANDS)) -> list[str]:
    """One command line: the words of a command, values for its arguments, and some of its options."""
    name = draw(st.sampled_from(names))
    params = [param for param in COMMANDS[name].params if param.name != "help"]
    words = name.split()[1:]
    for param in params:
        if param.param_type_name == "argument" and draw(st.integers(0, 9)):
            words.append(draw(value_of(param, files)))
    options = [param for param in params if param.param_type_name == "option" and param.name != "proof"]
    for param in (
        draw(st.lists(st.sampled_from(options), max_size=5, unique_by=lambda entry: entry.name)) if options else []
    ):
        words.append(draw(st.sampled_from([*param.opts, *param.secondary_opts])))
        if not getattr(param, "is_flag", False):
            words.append(draw(value_of(param, files)))
    required = [param for param in options if param.required or param.name == "storage"]
    for param in required:
        if not set(param.opts) & set(words) and draw(st.integers(0, 9)):
            words += [param.opts[0], draw(value_of(param, files))]
    if name in AT_WORK:
        words = [*words, draw(st.sampled_from(["--help", "--no-such-option", "--output"]))]
    if name in ("headrace simulate",) and "--seconds" not in words:
        words += ["--seconds", "2"]
    return words


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[str]:
    """Good and broken files of every kind that is read, named as seen from the working folder of the tests."""
    folder = tmp_path_factory.mktemp("inputs")
    workload.save(workload.new_constant(100, 50, seconds=600, size_gib=10), folder / "open.toml")
    workload.save(workload.ClosedWorkload(name="c", rw="read", bs_kib=16, iodepth=1, numjobs=1), folder / "closed.toml")
    good = {path.name: path.read_bytes() for path in folder.iterdir()}
    for path in sorted((DATA).iterdir()):
        if path.is_file() and path.suffix != ".py" and path.stat().st_size < 200_000:
            good[path.name] = path.read_bytes()
    chance = random.Random(11)  # printed here once: the broken files are always the same
    for name, content in good.items():
        (folder / name).write_bytes(content)
        broken = bytearray(content)
        for _ in range(3):
            at = chance.randrange(max(1, len(broken)))
            broken[at : at + chance.randrange(9)] = chance.choice(
                [b"", b"nan", b"\x00", b"\xff", b"-1", b"]", b"\n", b"1e999"]
            )
        (folder / f"broken-{name}").write_bytes(bytes(broken))
    (folder / "empty").write_bytes(b"")
    return [*(str(path) for path in sorted(folder.iterdir())), str(folder), str(folder / "none")]


@pytest.fixture(autouse=True)
def out_of_reach(tmp_path, monkeypatch):
    """A folder of its own, no programs, no lab: what needs them must say so."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "target.toml").write_text("x")
    (tmp_path / "link.toml").symlink_to("target.toml")
    for name in ("HEADRACE_DEBUG", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    monkeypatch.setenv("HEADRACED", str(nothing / "headraced"))
    # A page is served until it is interrupted: here its port is closed instead, and no browser is opened.
    monkeypatch.setattr("headrace.ui.server.PageServer.run", lambda server: server.socket.close())
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    for name in ("PATH", "HEADRACE_LAB", "HEADRACE_RUNS", "HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(nothing))


def check(words: list[str], code: int, out: str, err: str) -> None:
    text = f"headrace {shlex.join(words)}\nexit code {code}\n{err[-3_000:]}"
    assert code in FINE, text
    assert "Traceback" not in out + err and "bug in headrace" not in err and "panicked" not in err, text
    if code in (2, 3):
        assert "error: " in err or "Usage:" in err, text
        assert "\x1b" not in err, text


def run(words: list[str]) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(words)
    return code, out.getvalue(), err.getvalue()


@cases(250, 20_000)
@given(data=st.data())
def test_any_line_of_any_command(data, files):
    words = data.draw(lines(files))
    check(words, *run(words))


@cases(60, 5_000)
@given(data=st.data())
def test_any_simulation_and_import(data, files):
    words = data.draw(
        lines(
            files,
            (
                "headrace simulate",
                "headrace predict",
                "headrace replay",
                "headrace workload import",
                "headrace workload show",
                "headrace workload new",
            ),
        )
    )
    check(words, *run(words))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_without_arguments_and_with_unknown_ones(name):
    if name not in ("headrace demo", "headrace lab up", "headrace mysql up", "headrace lab verify", "headrace prove"):
        check([name], *run(name.split()[1:]))
    words = [*name.split()[1:], "--no-such-option"]
    code, out, err = run(words)
    assert code == 2 and out == ""
    check(words, code, out, err)


# --- processes of their own -------------------------------------------------------------------------------------------------------------------------------

SOME = (
    ["--help"], ["catalog", "volumes"], ["catalog", "instances"], ["catalog", "prices", "--output", "csv"], ["workload", "show", "demo:hour"],
    ["simulate", "demo:hour", "--storage", "gp2:500"], ["simulate", "fio:rw=read", "--storage", "gp3:10", "--seconds", "2", "--output", "json"],
    ["lab", "status"], ["volume", "list"], ["import"], ["bench", "list"], ["workload", "import", "/dev/null"],
)  # fmt: skip


CATALOG = [["catalog", "volumes", "--output", output] for output in ("table", "csv", "json")]


def started(words: list[str], **more) -> subprocess.Popen:
    return subprocess.Popen(
        [*HEADRACE, *words], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", **more
    )


@cases(4, 400)
@given(data=st.data())
def test_a_sample_in_processes_of_their_own(data, files):
    words = data.draw(lines(files))
    words = [word.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for word in words]
    done = subprocess.run(
        [*HEADRACE, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=300
    )
    check(words, done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("words", [SOME[0], *CATALOG, SOME[4]], ids=" ".join)
def test_a_reader_that_leaves_at_once_is_no_finding(words):
    end, own = os.pipe()
    os.close(end)  # nobody will read
    running = started(words, stdout=own)
    os.close(own)
    _, err = running.communicate(timeout=300)
    assert running.returncode == 0 and err == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [SOME[0], SOME[3]], ids=" ".join)
def test_a_full_disk_is_said(words):
    with open("/dev/full", "w") as full:
        running = started(words, stdout=full)
        _, err = running.communicate(timeout=300)
    assert running.returncode == 3 and "cannot be written: No space left on device" in err


@pytest.mark.parametrize("case", range(300 if SOAK else 10))
def test_ctrl_c_in_the_first_tenth_of_a_second(case):
    """From the moment the first line of ours has run: the interpreter's own start before it is not ours, and tells of an interrupt as it likes."""
    chance = random.Random(f"ctrl-c {case}")
    words = chance.choice(SOME)
    running = subprocess.Popen([sys.executable, "-X", "importtime", "-m", "headrace", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, errors="replace")  # fmt: skip
    seen = own = False
    for line in running.stderr:
        # Lines come as imports end. One more import after that of headrace.cli.main means that its first line, which catches Ctrl-C, has run.
        if own and "import time:" in line:
            seen = True
            break
        own = own or line.rstrip().endswith("headrace.cli.main")
    assert seen
    wait_s = chance.uniform(0.0, 0.1)
    with contextlib.suppress(subprocess.TimeoutExpired):
        running.wait(wait_s)
    running.send_signal(2)
    _, err = running.communicate(timeout=300)
    lines = [line for line in err.splitlines() if not line.startswith("import time:")]
    # It may have come to its end before; a slow machine does not.
    assert running.returncode in FINE, (case, wait_s, words, lines)
    assert not any("Traceback" in line or "Exception ignored" in line for line in lines), (case, wait_s, words, lines)
    if running.returncode == 130:
        assert "interrupted" in err  # maybe on the line of an import that was cut off
