"""Choice of the device of a recording that the doctor judges, and options that were swallowed once:
on files, as a user runs it."""

from __future__ import annotations

import resource
from dataclasses import replace

import pytest
from doctored import evidence, iostat

from headrace.observe.evidence import evidence_file
from headrace.workload import demo_day, save

HOT = {"over_volume_iops": 0.8, "read_ms": 20.0, "read_p50_ms": 20.0, "read_iops": 190.0, "charged_iops": 300.0}


def two_devices(path):
    """nvme1n1 does most and is well; nvme2n1 is at a flat 300 IOPS with 16 requests in line for two
    of the five minutes (53.3 ms each, by Little's law), and calm else."""
    iostat(path, [(1_000.0, 16.0, 0.6)] * 300)
    lines, second = [], 0
    for line in path.read_text().splitlines():
        lines.append(line)
        if line.startswith("nvme1n1"):
            hot = 100 <= second < 220
            rate, ms, queue, util = (300.0, 53.3, 16.0, 99.0) if hot else (20.0 + second % 7, 0.6, 0.0, 1.0)
            lines.append(f"nvme2n1 {rate} {rate * 16} 0 0 {ms} 16 {'0 ' * 10} 0 0 {queue} {util}")
            second += 1
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_the_device_that_is_named_is_judged(call, tmp_path):
    path = two_devices(tmp_path / "two.txt")
    code, out, _ = call("doctor", path, "--storage", "gp2:100", "--device", "nvme2n1")
    assert code == 1 and out.startswith("BINDS:") and "nvme2n1: a flat 300 IOPS" in " ".join(out.split())
    code, out, _ = call("doctor", path, "--device", "/dev/nvme1n1")
    assert code == 0 and "recording of nvme1n1" in " ".join(out.split())
    code, out, _ = call("watch", path, "--once", "--device", "nvme2n1")
    # Without --storage no limit can be judged: as doctor, watch ends with 3 where nothing can be told.
    assert code == 3 and "nvme2n1" in out and "nvme1n1" not in out


def test_without_a_name_one_that_is_at_a_limit_is_not_acquitted(call, tmp_path):
    """The device that does most is taken, if it is well, only if the others are well: nvme2n1 is
    not."""
    code, out, _ = call("doctor", two_devices(tmp_path / "two.txt"), "--storage", "gp2:100")
    text = " ".join(out.split())
    assert code == 1 and "bound nvme2n1" in text
    assert "nvme2n1 was judged" in text and "not judged: nvme1n1" in text


@pytest.mark.parametrize("command", [("doctor",), ("watch", "--once"), ("forecast", "--storage", "gp2:100")])
def test_a_device_that_is_not_there(call, tmp_path, command):
    """A device that neither a recording nor a recording of the doctor's has is refused, and those
    that are there are named."""
    seen = tmp_path / "seen.jsonl"
    evidence_file.save(evidence(HOT, {"tps": 30.0}, storage="io1:100:300"), seen)
    code, out, err = call(command[0], two_devices(tmp_path / "two.txt"), *command[1:], "--device", "sdz")
    assert code == 2 and not out and "'sdz'" in err and "nvme1n1" in err and "nvme2n1" in err
    code, out, err = call(command[0], str(seen), *command[1:], "--device", "sdz")
    assert code == 2 and not out and "--device sdz" in err and "There are: data" in err


def test_a_volume_of_several_that_were_kept(tmp_path, call):
    """By name, with its members; the other one is not judged."""
    both = evidence(HOT, {"tps": 30.0}, storage="io1:100:300")
    (volume,) = both.volumes
    calm = evidence(None, None, storage="io1:100:300").volumes[0]
    other = replace(calm, facts=replace(calm.facts, name="calm", device="/dev/nvme9n1", id="vol-9"))
    member = replace(calm, facts=replace(calm.facts, name=f"{volume.facts.name}/0", role="member"))
    volumes = (volume, member, other)
    facts = replace(both.facts, volumes=tuple(each.facts for each in volumes))
    path = tmp_path / "seen.jsonl"
    evidence_file.save(replace(both, facts=facts, volumes=volumes), path)
    for name in ("calm", "/dev/nvme9n1", "vol-9"):
        assert call("doctor", str(path), "--device", name)[0] == 0, name
    assert call("doctor", str(path), "--device", volume.facts.name)[0] == 1


@pytest.fixture
def seen(tmp_path):
    path = tmp_path / "seen.jsonl"
    evidence_file.save(evidence(HOT, {"tps": 30.0, "pool_reads_per_s": 180.0}, storage="io1:100:300"), path)
    return str(path)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--as-of", "GARBAGE"), "GARBAGE: a date is written YYYY-MM-DD"),
        (("--instance", "m5.garbage"), '"m5.garbage": is not an instance type'),
        (("--storage", "gp9:5"), "gp9"),
    ],
)
@pytest.mark.parametrize("command", [("doctor",), ("watch", "--once")])
def test_what_cannot_be_is_refused_where_it_is_not_used_as_well(call, seen, command, given, message):
    code, out, err = call(command[0], seen, *command[1:], *given)
    assert code == 2 and not out and message in err


def test_advice_that_is_left_out_says_why(call, seen):
    """On that day there was no gp3, io2 or price: what cannot be advised is said, and why."""
    out = " ".join(call("doctor", seen, "--as-of", "2009-01-01")[1].split())
    assert "The change to make is not known: " in out and "2009-01-01" in out and "Do:" not in out


@pytest.mark.parametrize("option", ["--report", "--record"])
def test_a_disk_that_is_full_does_not_cost_the_verdict(call, seen, tmp_path, option):
    """The system refuses files of more than 500 bytes: the verdict is told, the exit code is 3."""
    answer = call("doctor", seen)[1]
    path = tmp_path / ("page.html" if option == "--report" else "copy.jsonl")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, before[1]))
    try:
        code, out, err = call("doctor", seen, option, str(path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (code, out) == (3, answer) and "cannot be written" in err and not path.exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--record", "seen.txt"), "a recording is written as .jsonl or .jsonl.gz"),
        (("--report", "folder.html"), "is a folder"),
        (("--record", "folder.jsonl"), "is a folder"),
        (("--record", "seen.jsonl", "--force"), "is the same file as"),
        (("--trusted-advisor", "--report", "page.html"), "--report"),
        (("--seconds", "nan"), "--seconds nan: must be a number from 2 to 86,400"),
        (("--seconds", "1e9"), "--seconds 1e9: must be a number from 2 to 86,400"),
        (("--seconds", "x"), "--seconds x: must be a number from 2 to 86,400"),
    ],
)
def test_names_and_numbers_that_cannot_be(call, seen, tmp_path, monkeypatch, given, message):
    monkeypatch.chdir(tmp_path)
    for name in ("folder.html", "folder.jsonl"):
        (tmp_path / name).mkdir()
    code, out, err = call("doctor", seen, *given)
    assert code == 2 and not out and message in err


def test_whole_numbers(call, seen):
    for value in ("1.5", "nan", "-1"):
        code, _, err = call("watch", seen, "--seconds", value)
        assert code == 2 and f"--seconds {value}: must be a whole number of at least 1" in err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--storage", "gp2:500", "--device", "sdz"), "--device sdz"),
        (("--storage", "gp3:500", "--balance", "10"), "gp3:500 has no credits that could run out"),
        (("--storage", "gp2:500", "--full-at-gib", "10"), "--full-at-gib 10: says nothing without used space"),
        (("--storage", "gp2:500", "--free-inside-gib", "1"), "--free-inside-gib 1: says nothing"),
        (("--storage", "gp2:500", "--score", "--report", "a.html"), "--score and --report"),
        (("--storage", "gp2:500", "--hours", "nan"), "--hours nan: must be a whole number"),
    ],
)
def test_options_that_would_change_nothing(call, tmp_path, given, message):
    path = tmp_path / "day.toml"
    save(demo_day(), path)
    code, out, err = call("forecast", str(path), "--no-keep", *given)
    assert code == 2 and not out and message in err


def test_devices_that_make_no_demand_are_in_nobodys_way(call, tmp_path):
    """A disk that was never used, and one that the last report leaves out; twenty of them."""
    path = tmp_path / "many.txt"
    iostat(path, [(1_000.0, 16.0, 0.6)] * 120)
    text = path.read_text()
    idle = "".join(f"idle{number} {'0.00 ' * 19}0.00\n" for number in range(20))
    lines = "".join(line + "\n" + idle * line.startswith("nvme1n1") for line in text.rstrip("\n").split("\n"))
    path.write_text(lines.removesuffix(idle) + "\n")
    code, out, _ = call("doctor", str(path))
    message = " ".join(out.split())
    assert code == 0 and "recording of nvme1n1" in message and "was judged: it" not in message
    assert "not judged: idle0, idle1, idle10" in message
