"""Nothing that can be typed or read gives a traceback: thousands of random commands and broken files."""

from __future__ import annotations

import contextlib
import io
import os

import pytest
from hypothesis import HealthCheck, given, settings, target
from hypothesis import strategies as st
from places import DATA

from headrace import workload
from headrace.cli import main as cli

# Hypothesis prints the example that fails, and the command to run it again; print_blob adds the seed as one line.
RANDOM = settings(
    max_examples=150, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

WORDS = (
    "catalog", "volumes", "instances", "prices", "sources", "simulate", "predict", "replay", "workload", "new", "import", "show", "demo", "plan", "study", "list",
    "--storage", "--instance", "--as-of", "--seconds", "--interval", "--seed", "--start-balance", "--growth", "--form", "--goal", "--size-gib",
    "--region", "--output", "--degrade", "--modify", "--lose-member", "--snapshot-gib", "--init-rate", "--family", "--type", "--all-eras",
    "--no-merge", "--xen", "--max-volumes", "--exclude", "--compare", "--top", "--help", "--version", "-h", "--", "-", "", "gp2:100", "gp2:0",
    "gp2:-1", "9xgp3:1", "raid10:3xgp2:10", "raid5:3xst1:500", "io1:4:64000", "m5.large", "json", "csv", "table", "2018-08-15", "2018-02-30",
    "9999-99-99", "nan", "inf", "-inf", "1e999", "-1", "0", "1", "1.5", "99999999999999999999", "events", "interval", "us-east-1", "p99_ms<=20",
    "p99_ms<=", "<=", "cost_usd_month>=1", "fio:", "fio:rw=randread", "fio:rw=read,bs=16k,iodepth=4,numjobs=2", "fio:bs=0,rw=write",
    "fio:rw=rw,rwmixread=101", "fio:,,=,", "0:1:1:50", "0:0:0:0:0", "gp3:100@1..2", "@..", "/dev/null", "/", "\udcff", "\x1b[31m", "日本",
)  # fmt: skip


def run(arguments: list[str]) -> tuple[int, str, str]:
    """One command in this process. `plan` and `demo` write only where --report or --to says, which no random word names."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(arguments)
    return code, out.getvalue(), err.getvalue()


def check(arguments: list[str], code: int, out: str, err: str) -> None:
    assert code in (0, 1, 2, 3), (arguments, code)
    assert "Traceback" not in out + err and "bug in headrace" not in err, (arguments, err)
    if code in (2, 3):
        assert err.startswith("error: ") or "Usage:" in err, (arguments, err)
        assert "\x1b" not in err
    if code == 0 and "--output" not in arguments:
        assert out or err


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADRACE_DEBUG", raising=False)


@RANDOM
@given(st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=12)), max_size=7))
def test_random_words(words):
    if "demo" in words[:1] or "study" in words[:1]:
        words = [*words[:1], "--help"]  # they do real work; tested in test_cli and test_studies
    check(words, *run(words))


SETTINGS = {
    "--storage": st.one_of(
        st.sampled_from(["gp2:100", "2xgp3:50", "raid10:4xgp2:10", "st1:500", "io2:10:1000", "standard:10"]),
        st.from_regex(
            r"(raid(0|1|5|10|10f2):)?([0-9]{1,2}x)?(gp2|gp3|io1|io2|st1|sc1|standard)(:[0-9]{1,6}){0,4}", fullmatch=True
        ),
    ),
    "--instance": st.sampled_from(["m5.large", "t2.micro", "x", "m5.24xlarge"]),
    "--as-of": st.one_of(st.dates().map(str), st.text(max_size=10)),
    "--seconds": st.one_of(st.floats(-1, 5).map(str), st.sampled_from(["nan", "inf", "0", "1e-9"])),
    "--interval": st.one_of(st.floats(0.1, 100).map(str), st.sampled_from(["nan", "0", "-1", "1e-300", "inf"])),
    "--seed": st.integers(-(2**70), 2**70).map(str),
    "--start-balance": st.floats(-10, 110).map(str),
    "--growth": st.one_of(st.floats(-1, 3).map(str), st.just("nan")),
    "--degrade": st.one_of(st.text("0123456789.:-en", max_size=20), st.just("0:1:2:50:3")),
    "--modify": st.one_of(st.text("gp23:@.0159", max_size=20), st.just("gp3:100@1..2")),
    "--lose-member": st.one_of(st.integers(-2, 12).map(str), st.text(max_size=3)),
    "--snapshot-gib": st.floats(-1, 1e7).map(str),
    "--init-rate": st.floats(-1, 1e6).map(str),
}


@RANDOM
@given(
    st.sampled_from(
        ["fio:rw=randread,bs=16k,iodepth=4", "fio:rw=write,bs=1m", "fio:rw=randrw,rwmixread=3,bs=512,numjobs=3"]
    ),
    st.fixed_dictionaries(
        {"--storage": SETTINGS["--storage"]}, optional={k: v for k, v in SETTINGS.items() if k != "--storage"}
    ),
)
def test_random_simulations(load, options):
    options.setdefault("--seconds", "1")  # short: this is about what is refused
    arguments = ["simulate", load, *(part for option in options.items() for part in option), "--output", "json"]
    code, out, err = run(arguments)
    target(float(code == 0), label="accepted")
    check(arguments, code, out, err)


@pytest.fixture(scope="module")
def good_files(tmp_path_factory) -> list[bytes]:
    folder = tmp_path_factory.mktemp("good")
    kinds = {
        "daily": workload.new_daily(700, 300, size_gib=20), "constant": workload.new_constant(10, 5),
        "closed": workload.ClosedWorkload(name="c", rw="read", bs_kib=16, iodepth=1, numjobs=1),
        "points": workload.OpenWorkload(name="p", kind="recorded", points=workload.new_daily(7, 3).points.head(50)),
    }  # fmt: skip
    for name, kind in kinds.items():
        workload.save(kind, folder / name)
    recordings = DATA
    return [
        path.read_bytes()
        for path in [
            *sorted(folder.iterdir()),
            *sorted(p for p in recordings.iterdir() if p.is_file() and p.suffix != ".py"),
        ]
    ]


@RANDOM
@given(data=st.data())
def test_corrupt_files(data, good_files, tmp_path):
    """Cut off, overwritten, doubled, mixed: whatever is left of a file, it is read or refused."""
    content = bytearray(data.draw(st.sampled_from(good_files)))
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, max(0, len(content) - 1)))
        match data.draw(st.sampled_from(["cut", "put", "drop", "double"])):
            case "cut":
                del content[at:]
            case "put":
                junk = [b"nan", b"-1", b"1e999", b"\x00", b"\xff", b"[", b'"', b"\n", b"999999999999", b"00:00:00"]
                content[at:at] = data.draw(st.one_of(st.binary(max_size=6), st.sampled_from(junk)))
            case "drop":
                del content[at : at + data.draw(st.integers(1, 40))]
            case "double":
                content += content[at : at + 2_000]
    path = tmp_path / "broken"
    path.write_bytes(bytes(content))
    for command in (
        ["workload", "show", str(path)],
        ["workload", "import", str(path), "--to", str(tmp_path / "made.toml"), "--force"],
    ):
        code, out, err = run(command)
        check(command, code, out, err)
        assert code == 0 or out == ""
    words = {entry.name.split(".")[0] for entry in tmp_path.iterdir()}
    assert words <= {"broken", "made"}, words


def test_files_that_cannot_be_read_or_written(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    cases = [
        ["workload", "show", str(tmp_path / "none.toml")], ["workload", "show", str(folder)], ["workload", "import", "/dev/zero"],
        ["workload", "show", "a\0b"], ["plan", "fio:rw=read"], ["workload", "show", "fio:rw=read", "--output", "csv"],
        ["workload", "show", "demo:day", "--to", str(tmp_path / "no/such/folder.toml")], ["workload", "show", "demo:night"],
        ["workload", "show", "demo:day", "--report", str(tmp_path / "x.pdf")], ["demo", "--report", str(tmp_path / "none/x.html")],
        ["simulate", "demo:day", "--storage", "gp3:200", "--interval", "0.001"],
        ["simulate", "fio:rw=read", "--storage", "gp3:200", "--lose-member", "1"], ["predict", "demo:day", "--storage", "gp3:200"],
        ["replay", str(tmp_path / "none.rec")], ["replay", str(folder)],
        # A byte that is no UTF-8, as Python gives it.
        ["simulate", "demo:day", "--storage", "gp2\udcff"], ["export", "prometheus", "mysql://x", "--storage", "\udcff"],
        ["simulate", "demo:day", "--storage", "gp2:100", "--instance", "\udcff"], ["plan", "demo:day", "--region", "\udcff"],
    ]  # fmt: skip
    for arguments in cases:
        code, out, err = run(arguments)
        assert code in (2, 3) and out == "" and err.startswith("error: "), (arguments, code, err)
        check(arguments, code, out, err)
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere: needs an unprivileged user")
def test_a_folder_without_leave_to_write(tmp_path):
    tmp_path.chmod(0o500)
    code, _, err = run(["workload", "show", "demo:day", "--to", str(tmp_path / "x.toml")])
    assert code == 3 and "cannot be written" in err
