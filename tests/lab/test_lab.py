"""The lab from outside: daemon, devices, command line and Python together."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import mmap
import os
import pwd
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from datetime import datetime
from pathlib import Path

import pytest
from lab_folders import Command, kill, loops_of
from waiting import wait_until

from headrace.errors import HeadraceError, InputError
from headrace.lab import Lab, LabRefused, NoLab, doctor, metrics
from headrace.lab import start_lab as lab_up
from headrace.lab.launch import Settings
from headrace.lab.waiting import wait_for_modification

ROOT = Path(__file__).parents[2]
BLOCK = 4096


def block(number: int) -> bytes:
    """A block that is like no other."""
    return (number.to_bytes(8, "little") * (BLOCK // 8))[:BLOCK]


@contextlib.contextmanager
def opened(device: str):
    """The device past the page cache, and memory aligned as that wants it."""
    memory = mmap.mmap(-1, BLOCK)
    descriptor = os.open(device, os.O_RDWR | os.O_DIRECT)
    try:
        yield descriptor, memory
    finally:
        os.close(descriptor)
        memory.close()


def write(device: str, numbers: range | list[int]) -> None:
    with opened(device) as (descriptor, memory):
        for number in numbers:
            memory[:] = block(number)
            assert os.pwrite(descriptor, memory, number * BLOCK) == BLOCK
        os.fsync(descriptor)


def read(device: str, number: int) -> bytes:
    with opened(device) as (descriptor, memory):
        assert os.preadv(descriptor, [memory], number * BLOCK) == BLOCK
        return bytes(memory)


def device_of(volume: dict) -> str:
    return volume["attachment"]["device"]


def rows_until(lab, volume: str, enough, seconds: float = 15) -> list[dict]:
    """Rows of seconds, asked for until they are enough: the daemon writes one when its second has
    ended.
    """
    rows: list[dict] = []

    def are_enough() -> bool:
        rows[:] = metrics.build_frame(lab.metrics(volume)).to_dicts()
        return bool(enough(rows))

    wait_until(are_enough, "rows of seconds", seconds)
    return rows


# --- the daemon -----------------------------------------------------------------------------------


def test_up_status_down(labs):
    folder = labs.folder() / "new" / "folder"
    labs.folders.insert(0, folder)
    run = Command(folder)
    assert "headrace lab up --lab" in run("lab", "status", code=3).stderr
    run("lab", "down", code=3)
    up = run("lab", "up", "--instance", "m5.2xlarge", "--as-of", "2020-01-01", "--metrics-port", "0", "--api-port", "0")
    assert up.stdout == "" and str(folder) in up.stderr
    status = json.loads(run("lab", "status", "--output", "json").stdout)
    assert (status["instance_type"], status["as_of"], status["data_dir"], status["volumes"]) == (
        "m5.2xlarge",
        "2020-01-01",
        str(folder),
        [],
    )
    assert "m5.2xlarge" in run("lab", "status").stdout
    second = run("lab", "up", code=2)
    assert "already answers" in second.stderr and f"process {status['pid']}" in second.stderr
    assert run("lab", "down").stdout == ""
    assert doctor.find_daemon(doctor.Machine(), folder) is None
    run("lab", "status", code=3)
    assert not os.path.ismount(folder / "mnt")
    # A setting that is not given again stays.
    run("lab", "up", "--metrics-port", "0", "--api-port", "0")
    assert json.loads(run("lab", "status", "--output", "json").stdout)["instance_type"] == "m5.2xlarge"
    run("lab", "down")


@pytest.mark.parametrize(
    "settings", [{"instance_type": "m9.huge"}, {"as_of": "yesterday"}, {"time_scale": 2_000_000_000}]
)
def test_settings_the_daemon_refuses(labs, settings):
    with pytest.raises(InputError) as raised:
        labs.up(**settings)
    assert raised.value.exit_code == 2 and raised.value.rule


def test_two_daemons_on_one_directory(labs):
    """Over another socket the first one is not seen: the lock of the directory keeps the second
    out.
    """
    folder = labs.folder()
    with labs.up(folder):
        with pytest.raises(HeadraceError, match="in use") as raised:
            lab_up(folder, folder / "other.sock", Settings(metrics_port=0, api_port=0))
        assert raised.value.exit_code in (2, 3)


def test_foreground_is_the_daemon_itself(labs):
    folder = labs.folder()
    run = Command(folder)
    process = subprocess.Popen(
        run.words("lab", "up", "--foreground", "--metrics-port", "0", "--api-port", "0"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=run.environment,
    )
    assert process.stdout.readline() == b"ready\n"
    assert json.loads(run("lab", "status", "--output", "json").stdout)["pid"] == process.pid
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def scraped(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return answer.read().decode()


def exporters(folder: Path) -> list[Path]:
    """The processes that serve the metrics of a lab."""
    result = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"headrace.operate.exports.lab" in words and str(folder / "lab.sock").encode() in words:
                result.append(process)
    return result


@pytest.mark.parametrize("foreground", [False, True])
def test_metrics_are_served_by_a_process_without_rights_that_ends_with_the_lab(labs, foreground):
    folder, port = labs.folder(), free_port()
    run = Command(folder)
    daemon: subprocess.Popen[bytes] | None = None
    if foreground:
        words = run.words("lab", "up", "--foreground", "--metrics-port", str(port), "--api-port", "0")
        daemon = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=run.environment)
        assert daemon.stdout and daemon.stdout.readline() == b"ready\n"
    else:
        run("lab", "up", "--metrics-port", str(port), "--api-port", "0")
    with Lab(folder) as lab:
        lab.create("gp3:1", name="db")
        write(device_of(lab.attach("db", unpaced=True, probe=False)), range(10))
        assert lab.status()["metrics_url"] == f"http://127.0.0.1:{port}/metrics"
        wait_until(lambda: "aws_ebs_csi_write_ops_total{" in scraped(port), "a row that was counted")
    (exporter,) = exporters(folder)
    (identity,) = re.findall(r"^Uid:\s+(\d+)\s+(\d+)\s+(\d+)", (exporter / "status").read_text(), re.MULTILINE)
    assert set(identity) == {str(pwd.getpwnam("nobody").pw_uid)}
    assert re.search(r"^CapEff:\s+0+$", (exporter / "status").read_text(), re.MULTILINE)
    taken = Command(labs.folder())("lab", "up", "--metrics-port", str(port), "--api-port", "0", code=3)
    assert f"127.0.0.1:{port}" in taken.stderr and "--metrics-port" in taken.stderr
    run("lab", "down")
    wait_until(lambda: not exporters(folder), "the end of the exporter with its lab")
    if foreground:
        assert daemon is not None and daemon.wait(60) == 0
    with pytest.raises(urllib.error.URLError):
        scraped(port)


def test_after_kill_9_everything_is_there_again(labs):
    folder = labs.folder()
    lab = labs.up(folder, instance_type="m5.large")
    lab.create("gp2:10", name="db", tags={"team": "orders"}, balance_percent=5)
    device = device_of(lab.attach("db", name="sdq", probe=False))
    write(device, range(50))
    before = lab.describe("db")
    kill(folder)
    with pytest.raises(NoLab):
        lab.status()
    assert any(check.what == "left over" for check in doctor.examine(folder))
    with labs.up(folder) as again:
        after = again.describe("db")
        for key in ("id", "name", "spec", "tags", "created_at", "as_of", "state"):
            assert after[key] == before[key], key
        assert (after["attachment"]["name"], after["attachment"]["state"]) == ("sdq", "attached")
        assert again.status()["instance_type"] == "m5.large"
        # Credits are noted once a second and refill at 100 a second of 5.4 million.
        assert after["balance_percent"] == pytest.approx(5, abs=0.2)
        assert all(read(device_of(after), number) == block(number) for number in range(50))
        assert len(loops_of(folder)) == 1


def test_the_protocol_is_documented(lab):
    """Calls, arguments' examples and columns of metrics of the reference are those of the daemon."""
    text = (ROOT / "docs/reference/lab-protocol.md").read_text()
    calls = lab.call("lab.calls")["calls"]
    assert sorted(re.findall(r"^### ([a-z]+\.[a-z_]+)$", text, re.MULTILINE)) == sorted(calls)
    lab.create("gp2:10", name="db")
    lab.attach("db", probe=False)
    columns = rows_until(lab, "db", bool) and lab.metrics("db")["columns"]
    table = text.partition("### volume.metrics")[2].partition("| column |")[2].partition("\n\n")[0]
    named = {
        name
        for line in table.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`([a-z0-9_]+)`", line.split("|")[1])
    }
    assert named == set(columns)


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense",
        b"{}",
        b'{"id":1,"call":"volume.create","args":{"spec":5}}',
        b'{"id":1,"call":"no.such"}',
        b'{"id":1,"call":"lab.status","args":{"x":1}}',
        b"\xff",
        b"",
    ],
)
def test_a_caller_that_talks_nonsense_gets_words(lab, line):
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(10)
        caller.connect(str(lab.place.socket))
        caller.sendall(line + b"\n")
        answer = json.loads(caller.makefile().readline())
    assert answer["error"]["kind"] == "invalid-parameter" and answer["error"]["rule"]
    assert lab.status()["pid"]


# --- volumes --------------------------------------------------------------------------------------


def test_the_life_of_a_volume(lab, headrace):
    document = json.loads(
        headrace(
            "volume",
            "create",
            "gp2:10",
            "--name",
            "db",
            "--tag",
            "team=orders",
            "--start-balance",
            "5%",
            "--output",
            "json",
        ).stdout
    )
    assert (document["spec"], document["state"], document["tags"], document["attachment"]) == (
        "gp2:10",
        "available",
        {"team": "orders"},
        None,
    )
    assert document["balance_percent"] == pytest.approx(5, abs=0.1)
    headrace("volume", "attach", "db", "--name", "sdq", "--no-probe")
    details = lab.describe("db")
    link = lab.place.data_dir / "dev/sdq"
    assert os.path.realpath(link) == device_of(details) and str(link) in details["attachment"]["links"]
    assert int((Path("/sys/block") / Path(device_of(details)).name / "size").read_text()) * 512 == 10 << 30
    write(str(link), [0, 7, (10 << 30) // BLOCK - 1])
    assert "already attached" in headrace("volume", "attach", "db", code=2).stderr
    headrace("volume", "delete", "db", "--yes", code=2)
    headrace("volume", "detach", "db")
    assert not link.exists()
    again = device_of(lab.attach("db", probe=False))
    assert [read(again, number) for number in (7, 8)] == [block(7), bytes(BLOCK)]
    headrace("volume", "modify", "db", "--tag", "a=b", "--remove-tag", "team")
    assert lab.describe("db")["tags"] == {"a": "b"}
    headrace("volume", "detach", "db")
    headrace("volume", "delete", "db", code=2)  # nobody to ask
    headrace("volume", "delete", "db", "--yes")
    assert lab.volumes() == []
    with pytest.raises(LabRefused) as raised:
        lab.describe("db")
    assert raised.value.kind == "not-found"


def test_attach_measures_the_machine(lab):
    lab.create("gp3:10", name="db")
    attachment = lab.attach("db")["attachment"]
    assert attachment["path_us"] > 0 and attachment["ceiling"]["iops"] > 0 and not attachment["unpaced"]


@pytest.mark.parametrize("spec", ["gp2:x", "gp9:10", "io1:4:64000", "raid5:2xgp3:10", ""])
def test_storage_the_lab_refuses(headrace, spec):
    stderr = headrace("volume", "create", spec, code=2).stderr
    assert stderr.startswith("error: ") and "hint: " in stderr


def test_names_are_unique(lab):
    lab.create("gp2:1", name="db")
    with pytest.raises(LabRefused) as raised:
        lab.create("gp2:1", name="db")
    assert raised.value.source and raised.value.hint


def test_modify_in_use(lab, headrace):
    lab.create("gp2:10", name="db")
    device = device_of(lab.attach("db", probe=False))
    write(device, range(10))
    headrace("volume", "modify", "db", "--size-gib", "9", code=2)
    done = json.loads(
        headrace(
            "volume",
            "modify",
            "db",
            "--size-gib",
            "20",
            "--type",
            "gp3",
            "--iops",
            "4000",
            "--until",
            "completed",
            "--output",
            "json",
        ).stdout
    )
    assert (done["state"], done["progress_percent"], done["from"]) == ("completed", 100, "gp2:10")
    assert done["to"].startswith("gp3:20:4000")
    assert int((Path("/sys/block") / Path(device).name / "size").read_text()) * 512 == 20 << 30
    assert lab.describe("db")["iops"] == 4000 and read(device, 9) == block(9)
    rows = list(csv.DictReader(io.StringIO(headrace("volume", "modify", "--output", "csv").stdout)))
    assert [row["state"] for row in rows] == ["completed"]
    again = lab.modify("db", size_gib=21)
    assert wait_for_modification(lab, "db", again["id"])["state"] == "completed"


def test_wait_returns_when_a_volume_has_its_new_size_and_says_how_the_rest_goes(labs):
    # Modifying takes 30 s of lab time and optimizing hours: half a second and minutes at this
    # scale.
    with labs.up(time_scale=60) as lab:
        headrace = Command(lab.place.data_dir)
        lab.create("gp2:10", name="db")
        device = device_of(lab.attach("db", probe=False))
        began = time.monotonic()
        done = headrace("volume", "modify", "db", "--size-gib", "20", "--wait", "--output", "json")
        assert time.monotonic() - began < 30
        answer = json.loads(done.stdout)
        assert (answer["state"], answer["to"]) == ("optimizing", "gp2:20")
        assert int((Path("/sys/block") / Path(device).name / "size").read_text()) * 512 == 20 << 30
        assert answer["next_allowed_at"] == answer["completed_at"] > answer["optimizing_at"]
        assert (
            "optimizing" in done.stderr and answer["completed_at"] in done.stderr and "next modification" in done.stderr
        )
        refused = headrace("volume", "modify", "db", "--size-gib", "21", code=2)
        assert "every earlier modification must be completed" in refused.stderr


def test_a_mounted_volume_stays(lab, headrace, tmp_path):
    lab.create("gp3:1", name="db")
    device = device_of(lab.attach("db", unpaced=True, probe=False))
    subprocess.run(["mkfs.xfs", "-q", device], check=True)
    subprocess.run(["mount", device, tmp_path], check=True)
    try:
        assert "mounted" in headrace("volume", "detach", "db", code=2).stderr
        assert "mounted" in headrace("lab", "down", code=2).stderr
        (tmp_path / "file").write_text("there")
    finally:
        subprocess.run(["umount", tmp_path], check=True)
    headrace("volume", "detach", "db")


# --- credits, faults, members ---------------------------------------------------------------------


def test_balances(lab, headrace, tmp_path):
    lab.create("gp2:100", name="db")
    assert lab.balance("db")["members"][0]["percent"] == pytest.approx(100)
    headrace("volume", "balance", "db", "--set", "5%")
    headrace("volume", "balance", "db", "--save", str(tmp_path / "b.json"))
    headrace("volume", "balance", "db", "--set", "50")
    assert "50.0 %" in headrace("volume", "balance", "db").stdout
    headrace("volume", "balance", "db", "--load", str(tmp_path / "b.json"))
    # Refill: 300 credits a second of 5.4 million.
    assert lab.balance("db")["members"][0]["percent"] == pytest.approx(5, abs=0.2)
    lab.create("gp3:10", name="none")
    assert lab.balance("none")["members"] == [None]
    assert "no credit" in headrace("volume", "balance", "none", "--set", "5%", code=2).stderr


def test_errors_on_demand(lab, headrace):
    lab.create("gp3:1", name="db")
    device = device_of(lab.attach("db", probe=False))
    write(device, [3])
    document = json.loads(
        headrace(
            "volume", "fault", "db", "error", "--every", "1", "--op", "read", "--seconds", "600", "--output", "json"
        ).stdout
    )
    with pytest.raises(OSError, match="Input/output error"):
        read(device, 3)
    assert [fault["id"] for fault in lab.faults("db")] == [document["id"]]
    headrace("volume", "fault", "db", "--clear", document["id"])
    assert read(device, 3) == block(3) and lab.faults("db") == []


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [("degraded", {"op": "nonsense"}), ("power-cut", {"op": "nonsense"}), ("latency", {"extra_ms": 0.0})],
)
def test_a_fault_that_would_do_nothing_is_refused(lab, kind, wrong):
    lab.create("gp3:1", name="db")
    lab.attach("db", probe=False)
    with pytest.raises(LabRefused, match="is not an operation" if "op" in wrong else "must be 0.001 to 60000"):
        lab.fault("db", kind, **wrong)
    assert lab.faults("db") == []


def test_a_pause_ends_when_it_said(lab):
    lab.create("gp3:1", name="db")
    device = device_of(lab.attach("db", probe=False))
    fault = lab.fault("db", "pause", seconds=0.7)
    read(device, 0)
    # Never early: the daemon's clock and ours are the same machine's; a millisecond for the
    # anchoring of its monotonic to the wall clock.
    assert time.time() >= datetime.fromisoformat(fault["ends_at"][:26] + "+00:00").timestamp() - 0.001


def test_a_power_cut(lab):
    lab.create("gp3:1", name="db")
    device = device_of(lab.attach("db", probe=False))
    write(device, range(20))  # flushed
    fault = lab.fault("db", "power-cut", in_s=0.5, seed=7)
    assert fault["seed"] == 7
    deadline = time.monotonic() + 30
    with pytest.raises(OSError), opened(device) as (descriptor, memory):
        number = 100
        while time.monotonic() < deadline:
            memory[:] = block(number)
            os.pwrite(descriptor, memory, number * BLOCK)
            number += 1
    with pytest.raises(LabRefused, match="is without power already"):
        lab.fault("db", "power-cut")
    lab.detach("db", force=True)
    again = device_of(lab.attach("db", probe=False))
    assert all(read(again, number) == block(number) for number in range(20))
    torn_or_whole = read(again, 100)
    assert all(torn_or_whole[at : at + 512] in (bytes(512), block(100)[:512]) for at in range(0, BLOCK, 512))


def test_a_detach_ends_a_power_cut_that_was_to_come(lab):
    lab.create("gp3:1", name="db")
    lab.attach("db", unpaced=True, probe=False)
    lab.fault("db", "power-cut", in_s=1, seed=7)
    lab.detach("db")
    device = device_of(lab.attach("db", unpaced=True, probe=False))
    with opened(device) as (descriptor, memory):
        for number in range(200):  # never flushed
            memory[:] = block(number)
            assert os.pwrite(descriptor, memory, number * BLOCK) == BLOCK
    time.sleep(1.5)
    assert lab.faults("db") == []
    assert all(read(device, number) == block(number) for number in range(200))
    # Nor is another refused because of it.
    lab.fault("db", "power-cut", in_s=1_000)
    with pytest.raises(LabRefused, match="has a power cut coming"):
        lab.fault("db", "power-cut", in_s=1_000)


def test_a_member_is_lost_and_rebuilt(lab, headrace):
    lab.create("raid1:2xgp3:1", name="pair")
    device = device_of(lab.attach("pair", probe=False))
    write(device, range(100))
    headrace("volume", "fault", "pair", "fail", "--member", "0")
    assert "member 0 failed" in headrace("volume", "list").stdout
    assert read(device, 99) == block(99)
    headrace("volume", "fault", "pair", "replace", "--member", "0")
    wait_until(lambda: lab.describe("pair")["members"][0]["state"] == "ok", "the end of the rebuild", 60)
    headrace("volume", "fault", "pair", "fail", "--member", "1")
    assert all(read(device, number) == block(number) for number in (0, 50, 99))


def test_a_member_that_is_replaced_again_is_rebuilt_from_its_beginning(lab):
    lab.create("raid1:2xgp3:1", name="pair")
    device = device_of(lab.attach("pair", unpaced=True, probe=False))
    write(device, range(384))  # 6 steps of a rebuild, each of which takes a second
    lab.slow_member("pair", 1, extra_ms=1_000)
    lab.replace_member("pair", 0)
    half = 50 * 384 * BLOCK / (1 << 30)  # percent of the member
    wait_until(lambda: lab.describe("pair")["members"][0]["done_percent"] >= half, "half of the rebuild")
    # Within a step, so that the rebuild does not see that the member was failed.
    lab.fail_member("pair", 0)
    lab.replace_member("pair", 0)
    wait_until(lambda: lab.describe("pair")["members"][0]["state"] == "ok", "the end of the rebuild", 60)
    lab.fail_member("pair", 1)
    assert all(read(device, number) == block(number) for number in range(384))


def test_a_slow_member(lab, headrace):
    lab.create("raid10:4xgp3:1", name="ten")
    headrace("volume", "fault", "ten", "slow", "--member", "2", "--caps", "20%", "--extra-ms", "5")
    member = lab.describe("ten")["members"][2]
    assert (member["state"], member["caps_percent"], member["extra_ms"]) == ("slow", 20, 5)
    assert "20 % of that, 5 ms added" in headrace("volume", "list", "ten").stdout
    headrace("volume", "fault", "ten", "restore", "--member", "2")
    assert lab.describe("ten")["members"][2]["state"] == "ok"
    headrace("volume", "fault", "ten", "fail", "--member", "9", code=2)


# --- measurements ---------------------------------------------------------------------------------


def test_metrics_count_every_write(lab, headrace):
    lab.create("gp3:1", name="db")
    device = device_of(lab.attach("db", probe=False))
    write(device, range(200))
    rows = rows_until(lab, "db", lambda rows: sum(row["writes"] for row in rows) >= 200)
    assert sum(row["writes"] for row in rows) == 200 and sum(row["write_bytes"] for row in rows) == 200 * BLOCK
    busy = [row for row in rows if row["writes"]]
    assert all(row["write_p50_us"] > 0 and row["write_time_us"] > 0 for row in busy)
    text = headrace("volume", "metrics", "db", "--seconds", "60", "--output", "csv").stdout
    assert sum(int(row["writes"]) for row in csv.DictReader(io.StringIO(text))) == 200
    assert "write IOPS" in headrace("volume", "metrics", "db").stdout
    [totals] = lab.metrics_totals()["volumes"]
    assert (totals["member"], totals["writes"], totals["write_latency"]["counts"][-1]) == (None, 200, 200)


def test_record(lab, headrace, tmp_path):
    lab.create("gp3:1", name="db")
    device = device_of(lab.attach("db", probe=False))
    headrace("volume", "record", "db", "start", "--to", str(tmp_path / "db.rec"))
    write(device, range(10))
    answer = json.loads(headrace("volume", "record", "db", "stop", "--output", "json").stdout)
    assert (
        answer["path"] == str(tmp_path / "db.rec")
        and answer["requests"] >= 10
        and (tmp_path / "db.rec").stat().st_size > 0
    )
    headrace("volume", "record", "db", "stop", code=2)


def test_every_form_of_output_can_be_read(lab, headrace):
    lab.create("gp2:10", name="db")
    lab.attach("db", probe=False)
    lab.fault("db", "latency", in_s=500, extra_ms=1)
    for line in (
        "lab status",
        "lab doctor",
        "volume list",
        "volume list db",
        "volume balance db",
        "volume fault db",
        "volume modify",
        "volume metrics db",
    ):
        words = line.split()
        json.loads(headrace(*words, "--output", "json").stdout)
        header, *rows = list(csv.reader(io.StringIO(headrace(*words, "--output", "csv").stdout)))
        assert header and all(len(row) == len(header) for row in rows), line
        assert headrace(*words).stdout.strip(), line


def test_completion_knows_the_volumes(lab):
    import types

    from headrace.cli.options import complete_volume

    lab.create("gp2:1", name="orders")
    lab.create("gp2:1", name="other")
    context = types.SimpleNamespace(params={"data_dir": lab.place.data_dir})
    assert complete_volume(context, "ord") == ["orders"]
    assert len(complete_volume(context, "o")) == 2
