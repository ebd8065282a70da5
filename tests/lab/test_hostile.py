"""A lab under hostile callers, many volumes and a full disk: it answers, and loses nothing."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import subprocess
import time

import pytest
from lab_folders import small_disk
from waiting import wait_until

from headrace.errors import CouldNotRun, HeadraceError

SEED = int(os.environ.get("SEED", "7"))
ROUNDS = 150
MANY = 64

# Every kind of refusal: docs/reference/lab-protocol.md, Errors.
KINDS = (
    "invalid-parameter", "not-found", "incorrect-state", "incorrect-modification-state", "in-use", "limit-exceeded", "rate-exceeded",
    "unsupported", "insufficient-permission", "unavailable",
)  # fmt: skip


def connect(lab) -> socket.socket:
    result = socket.socket(socket.AF_UNIX)
    result.settimeout(10)
    result.connect(str(lab.place.socket))
    return result


def answer_to(lab, line: bytes) -> dict | None:
    """Returns the daemon's answer to a line; None if it closes the connection."""
    with connect(lab) as result, contextlib.suppress(ConnectionResetError, BrokenPipeError):
        result.sendall(line + b"\n")
        data = b""
        while not data.endswith(b"\n"):
            more = result.recv(65_536)
            if not more:
                break
            data += more
        return json.loads(data) if data else None
    return None


def nonsense(chance: random.Random, calls: list[str]) -> bytes:
    """Lines from pure noise to calls that are nearly right."""
    values = [
        None,
        True,
        -1,
        2**70,
        1.5,
        "",
        "a" * 5_000,
        "gp2:8",
        "\0",
        [],
        {},
        [[[1]]],
        {"a": {"b": 1}},
        float("1e308"),
    ]
    match chance.randrange(5):
        case 0:
            return bytes(chance.randrange(256) for _ in range(chance.randrange(1, 400))).replace(b"\n", b" ")
        case 1:
            return b"[" * chance.randrange(1, 3_000)
        case 2:
            return json.dumps(chance.choice(values)).encode()
        case 3:
            return json.dumps(
                {
                    "id": chance.choice(values),
                    "call": chance.choice([*calls, "volume.explode", 7]),
                    "args": chance.choice(values),
                }
            ).encode()
    names = [
        "volume",
        "spec",
        "name",
        "percent",
        "member",
        "kind",
        "size_gib",
        "state",
        "tags",
        "since",
        "path",
        "set",
        "remove",
        "in_s",
        "seconds",
    ]
    args = {name: chance.choice(values) for name in chance.sample(names, chance.randrange(1, 5))}
    return json.dumps({"id": 1, "call": chance.choice(calls), "args": args}).encode()


def test_nonsense_is_answered_and_changes_nothing(lab):
    lab.create("gp3:8", name="kept")
    lab.attach("kept")
    calls = [call for call in lab.call("lab.calls")["calls"] if call not in ("lab.down", "volume.create")]
    before = lab.describe("kept")
    chance = random.Random(SEED)
    print("seed", SEED)
    for _ in range(ROUNDS):
        line = nonsense(chance, calls)
        message = answer_to(lab, line)
        if message is not None and "error" in message:
            assert message["error"]["kind"] in KINDS, line[:200]
            assert message["error"]["rule"] and message["error"]["hint"], line[:200]
    after = lab.describe("kept")
    assert (after["state"], after["spec"], after["attachment"]["device"]) == (
        before["state"],
        before["spec"],
        before["attachment"]["device"],
    )


def test_a_line_without_end_is_bounded(lab):
    with connect(lab) as result:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(40):
                result.sendall(b"x" * 65_536)
        data = b""
        with contextlib.suppress(ConnectionResetError):
            data = result.recv(65_536)
        assert not data or "at most" in data.decode()
    assert lab.status()["volumes"] == 0


def test_more_callers_than_seats_are_told_so(lab):
    state = []
    try:
        for _ in range(70):
            state.append(connect(lab))
        time.sleep(0.5)
        refused = 0
        for result in state:
            result.settimeout(0.2)
            with contextlib.suppress(TimeoutError, ConnectionResetError):
                refused += b"call already" in result.recv(65_536)
        assert refused >= 70 - 64
    finally:
        for result in state:
            result.close()

    def answers() -> bool:
        try:
            return bool(lab.status()["pid"])
        except HeadraceError:
            return False

    wait_until(answers, "an answer once the seats are free")


def test_64_volumes_at_once(lab):
    names = [lab.create("gp3:1", name=f"v{i}")["name"] for i in range(MANY)]
    devices = [lab.attach(name)["attachment"]["device"] for name in names]
    assert len(set(devices)) == MANY
    for number, device in enumerate(devices):
        descriptor = os.open(device, os.O_WRONLY)
        os.pwrite(descriptor, number.to_bytes(8, "little") * 512, 0)
        os.fsync(descriptor)
        os.close(descriptor)
    for number, volume in enumerate(lab.volumes(names)):
        data = lab.place.data_dir / "volumes" / volume["id"] / "data"
        with data.open("rb") as file:
            assert file.read(8) == number.to_bytes(8, "little")
    assert lab.status()["attached"] == MANY
    for name in names:
        lab.detach(name)
        lab.delete(name)
    assert lab.volumes() == []


def test_members_have_metrics_of_their_own(lab):
    lab.create("raid10:4xgp3:4", name="r")
    device = lab.attach("r")["attachment"]["device"]
    time.sleep(1.2)
    subprocess.run(
        ["dd", "if=/dev/zero", f"of={device}", "bs=256k", "count=64", "oflag=direct"], check=True, capture_output=True
    )
    time.sleep(2.2)  # a row is written when its second is over

    def written(member: int | None) -> int:
        rows = lab.metrics("r", member=member, resolution="second")
        return sum(row[rows["columns"].index("write_bytes")] for row in rows["rows"])

    whole = written(None)
    assert whole == 64 * 256 * 1024
    # RAID 10: every byte on two members; chunks of 256 KiB go round two pairs.
    assert [written(member) for member in range(4)] == [whole // 2] * 4


@pytest.fixture
def disk(tmp_path):
    with small_disk(tmp_path / "d", 48) as place:
        yield place


def test_a_full_disk_fails_the_writer_and_nothing_else(labs, disk):
    lab = labs.up(disk / "lab")
    try:
        lab.create("gp3:1", name="v")
        device = lab.attach("v", probe=False)["attachment"]["device"]
        done = subprocess.run(
            ["dd", "if=/dev/urandom", f"of={device}", "bs=1M", "count=60", "oflag=direct"],
            capture_output=True,
            text=True,
        )
        assert done.returncode != 0 and "error" in done.stderr.lower()
        # No room for a journal record or a volume's folder: refused in words, and what was there is
        # there.
        with contextlib.suppress(CouldNotRun, HeadraceError):
            for number in range(2_000):
                lab.create("gp3:1", name=f"w{number}")
        assert lab.describe("v")["state"] == "in-use"
        subprocess.run(["blkdiscard", "-f", device], check=True, capture_output=True)
        assert lab.create("gp3:1", name="after")["state"] == "available"
    finally:
        lab.detach("v", force=True)
        lab.down(force=True)
        lab.close()
