"""The AWS endpoint side by side with other emulators, in one run: DescribeVolumes over 200 volumes
and single calls, p50 and p99.

    make bench                                        (needs root, as the lab does)
    .venv/bin/python benchmarks/api_bench.py [--samples 300] [--rounds 5] [--crowd 10000]

Peers, each in an environment of its own (.venv/peers, which `make bench` fills from PyPI): moto's
server and MiniStack. All servers run at once and answer the same requests in turns, so that
what the machine does meanwhile hits them alike.

Two clients. The raw one signs a request before the clock starts, sends it over a connection that is
kept (a server that closes it is connected to again, within the time) and stops the clock when the
whole body is there: the server's own speed. boto3 is what users see: its own parsing costs
milliseconds of its own, alike for all.

`--crowd N` then fills every server up to N volumes and N snapshots, and asks single calls again: they
should take what they took at 200 volumes.

The lab does what the others only note: a volume is a file and a record that is on the disk before
the answer; an answer needs a signature that is checked.
"""

from __future__ import annotations

import argparse
import configparser
import contextlib
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from rich.console import Console
from rich.table import Table

VOLUMES = 200  # on record, as the project's bar says
SAMPLES = 60  # of a call in a round (a guess: a p99 needs some hundred in all)
ROUNDS = 5  # a guess
WARM = 5  # requests before the clock counts (a guess: imports and caches of a server)
READY_S = 60.0  # for a server to answer (a guess: moto imports for seconds)
BAR = 3.0  # times as fast as the fastest peer, the project's own bar
REGION = "us-east-1"
VERSION = "2016-11-15"  # of the EC2 API, in every request
PEERS = Path(sys.prefix) / "peers" / "bin"
PERCENTILES = (50, 99)


@dataclass
class Server:
    """One endpoint under test. `times`: seconds by (client, call), a list for each round."""

    name: str
    endpoint: str
    key: str = "testing"
    secret: str = "testing"
    pid: int | None = None
    volumes: list[str] = field(default_factory=list)
    # Volumes in turns.
    turns: Iterator[str] = field(default_factory=lambda: iter(()))
    # Volumes that a page had which was asked for with 100.
    pages: set[int] = field(default_factory=set)
    times: dict[tuple[str, str], list[list[float]]] = field(default_factory=dict)


class Raw:
    """Signed requests of the EC2 protocol over one kept connection: bytes that are ready before the
    clock starts, and no more parsing of the answer than finding its end.
    """

    def __init__(self, server: Server) -> None:
        from botocore.auth import SigV4Auth
        from botocore.credentials import Credentials

        self.server = server
        self.signer = SigV4Auth(Credentials(server.key, server.secret), "ec2", REGION)
        parts = urlsplit(server.endpoint)
        self.address = (parts.hostname or "127.0.0.1", parts.port or 80)
        self.socket: socket.socket | None = None

    def call(self, action: str, **params: object) -> tuple[float, bytes]:
        """Seconds from the first byte sent to the last one read, and the answer."""
        data = self.signed(action, params)
        begun = time.perf_counter()
        reused = self.socket is not None
        try:
            head, body = self.exchange(data)
        except ConnectionError:
            # One that was kept, and that the server closed while it waited.
            if not reused:
                raise
            self.socket = None
            head, body = self.exchange(data)
        taken = time.perf_counter() - begun
        if head.startswith(b"HTTP/1.0") or b"\nconnection: close" in head.lower():
            assert self.socket is not None  # `exchange` opened it
            self.socket.close()
            self.socket = None
        if b" 200 " not in head[:16]:
            raise RuntimeError(f"{self.server.name}: {action}: {head[:40]!r} {body[:400]!r}")
        return taken, body

    def exchange(self, data: bytes) -> tuple[bytes, bytes]:
        if self.socket is None:
            self.socket = socket.create_connection(self.address, timeout=READY_S)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(data)
        return self.answer(self.socket)

    def signed(self, action: str, params: dict) -> bytes:
        from botocore.awsrequest import AWSRequest

        body = urlencode({"Action": action, "Version": VERSION} | params).encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
        request = AWSRequest("POST", f"{self.server.endpoint}/", data=body, headers=headers)
        self.signer.add_auth(request)
        fields = {**request.headers, "Host": urlsplit(self.server.endpoint).netloc, "Content-Length": str(len(body))}
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"POST / HTTP/1.1\r\n{lines}\r\n".encode() + body

    @staticmethod
    def answer(connection: socket.socket) -> tuple[bytes, bytes]:
        """Returns head and body of one answer."""
        data = b""
        while b"\r\n\r\n" not in data:
            data += received(connection)
        head, _, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"\ncontent-length: *(\d+)", head, re.IGNORECASE)
        parts, size = [body], len(body)
        while size < int(length[1]) if length else not parts[-1].endswith(b"\r\n0\r\n\r\n"):
            parts.append(received(connection))
            size += len(parts[-1])
        return head, b"".join(parts)


def received(connection: socket.socket) -> bytes:
    data = connection.recv(1 << 20)
    if not data:
        raise ConnectionError("the server closed the connection in the middle of an answer")
    return data


def between(text: bytes, tag: str) -> str:
    """Returns the text of the first element of a name in an XML answer."""
    return text.partition(f"<{tag}>".encode())[2].partition(f"</{tag}>".encode())[0].decode()


# A round makes each of these so many times, and takes away again what it made.
def raw_calls(client: Raw) -> Iterator[tuple[str, Callable[[], float]]]:
    server, gaps = client.server, []

    def create() -> float:
        taken, data = client.call("CreateVolume", AvailabilityZone=f"{REGION}a", Size=8, VolumeType="gp3")
        gaps.append(between(data, "volumeId"))
        return taken

    def tag() -> float:
        volume = server.volumes[len(gaps) % len(server.volumes)]
        return client.call("CreateTags", **{"ResourceId.1": volume, "Tag.1.Key": "bench", "Tag.1.Value": "yes"})[0]

    def describe_one() -> float:
        return client.call("DescribeVolumes", **{"VolumeId.1": server.volumes[0]})[0]

    def describe_all() -> float:
        taken, data = client.call("DescribeVolumes")
        listed = data.count(b"<volumeId>")
        if listed < VOLUMES:
            raise RuntimeError(f"{server.name} lists {listed} volumes of {VOLUMES}")
        return taken

    yield f"DescribeVolumes, all {VOLUMES}", describe_all
    yield "DescribeVolumes, by id", describe_one
    yield "CreateTags", tag
    yield "DescribeAvailabilityZones", lambda: client.call("DescribeAvailabilityZones")[0]
    yield "CreateVolume", create
    yield "DeleteVolume", lambda: client.call("DeleteVolume", VolumeId=gaps.pop())[0]


# Calls that a crowd of clients repeats.
def crowd_calls(client: Raw) -> Iterator[tuple[str, Callable[[], float]]]:
    server, snapshots = client.server, []

    def page() -> float:
        taken, data = client.call("DescribeVolumes", MaxResults=100)
        server.pages.add(data.count(b"<volumeId>"))
        return taken

    def snapshot() -> float:
        # Each of another volume: EC2 bounds the rate for a volume, and so does the lab.
        taken, data = client.call("CreateSnapshot", VolumeId=next(server.turns))
        snapshots.append(between(data, "snapshotId"))
        return taken

    def describe_snapshot() -> float:
        return client.call("DescribeSnapshots", **{"SnapshotId.1": snapshots[0]})[0]

    yield "DescribeVolumes, MaxResults=100", page
    for name, call in raw_calls(client):
        if name != f"DescribeVolumes, all {VOLUMES}":
            yield name, call
    yield "CreateSnapshot", snapshot
    yield "DescribeSnapshots, by id", describe_snapshot
    yield "DeleteSnapshot", lambda: client.call("DeleteSnapshot", SnapshotId=snapshots.pop())[0]


def boto_calls(server: Server) -> Iterator[tuple[str, Callable[[], float]]]:
    ec2, volume_ids = boto_client(server), []

    def timed(method: str, **given) -> tuple[float, dict]:
        begun = time.perf_counter()
        answer = getattr(ec2, method)(**given)
        return time.perf_counter() - begun, answer

    def create() -> float:
        taken, answer = timed("create_volume", AvailabilityZone=f"{REGION}a", Size=8, VolumeType="gp3")
        volume_ids.append(answer["VolumeId"])
        return taken

    tags = [{"Key": "bench", "Value": "boto3"}]
    yield f"DescribeVolumes, all {VOLUMES}", lambda: timed("describe_volumes")[0]
    yield "DescribeVolumes, by id", lambda: timed("describe_volumes", VolumeIds=server.volumes[:1])[0]
    yield "CreateTags", lambda: timed("create_tags", Resources=server.volumes[:1], Tags=tags)[0]
    yield "CreateVolume", create
    yield "DeleteVolume", lambda: timed("delete_volume", VolumeId=volume_ids.pop())[0]


def boto_client(server: Server):
    import boto3
    from botocore.config import Config

    return boto3.client(
        "ec2",
        endpoint_url=server.endpoint,
        region_name=REGION,
        aws_access_key_id=server.key,
        aws_secret_access_key=server.secret,
        config=Config(retries={"total_max_attempts": 1}),
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def peer(name: str, program: str, arguments: list[str], port: int, folder: Path, **variables: str) -> Iterator[Server]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")} | variables
    log = folder / f"{program}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(PEERS / program), *arguments], stdout=out, stderr=out, env=environment, cwd=folder
        )
    try:
        until = time.monotonic() + READY_S
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            if process.poll() is not None:
                raise RuntimeError(f"{name} ended: {log.read_text()[-400:]}")
            time.sleep(0.1)
        yield Server(name, f"http://127.0.0.1:{port}", pid=process.pid)
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def headrace_server(folder: Path) -> Iterator[Server]:
    """Starts a lab in a folder of its own, found by the profile that `headrace lab init` writes."""
    port = free_port()
    files = {"AWS_CONFIG_FILE": str(folder / "config"), "AWS_SHARED_CREDENTIALS_FILE": str(folder / "credentials")}
    environment = os.environ | files | {"HEADRACE_LAB": str(folder / "lab")}

    def headrace(*words: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "headrace", *words], env=environment, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"headrace {' '.join(words)}: {done.stderr}")

    headrace("lab", "init", "--api-port", str(port))
    headrace("lab", "up", "--metrics-port", "0", "--api-port", str(port))
    try:
        profile, secrets = configparser.ConfigParser(), configparser.ConfigParser()
        profile.read(files["AWS_CONFIG_FILE"])
        secrets.read(files["AWS_SHARED_CREDENTIALS_FILE"])
        pair = secrets["headrace"]
        yield Server(
            "Headrace",
            profile["profile headrace"]["endpoint_url"],
            pair["aws_access_key_id"],
            pair["aws_secret_access_key"],
        )
    finally:
        headrace("lab", "down", "--force")


def moto(folder: Path):
    port = free_port()
    return peer("moto", "moto_server", ["-H", "127.0.0.1", "-p", str(port)], port, folder)


def ministack(folder: Path):
    port = free_port()
    settings = {"BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(port), "LOG_LEVEL": "WARNING"}
    return peer("MiniStack", "ministack", [], port, folder, **settings)


def resident_mib(pid: int | None) -> float | None:
    if pid is None:
        return None
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def measure(servers: list[Server], samples: int, rounds: int) -> None:
    """Measures every call on every server, in turns; the first round of each only warms it."""
    clients = {server.name: Raw(server) for server in servers}
    for server in servers:
        for _ in range(VOLUMES):
            _, data = clients[server.name].call("CreateVolume", AvailabilityZone=f"{REGION}a", Size=8, VolumeType="gp3")
            server.volumes.append(between(data, "volumeId"))
    for number in range(rounds + 1):
        for server in servers:
            for kind, calls in (("raw", raw_calls(clients[server.name])), ("boto3", boto_calls(server))):
                for name, call in calls:
                    times = [call() for _ in range(samples if number else WARM)]
                    if number:
                        server.times.setdefault((kind, name), []).append(times)


def fill(server: Server, volumes: int, snapshots: int) -> None:
    """So many more volumes and snapshots."""
    client = Raw(server)
    for _ in range(volumes):
        _, data = client.call("CreateVolume", AvailabilityZone=f"{REGION}a", Size=8, VolumeType="gp3")
        server.volumes.append(between(data, "volumeId"))
    server.turns = cycle(server.volumes)
    for _ in range(snapshots):
        client.call("CreateSnapshot", VolumeId=next(server.turns))


def measure_crowd(servers: list[Server], crowd: int, samples: int, rounds: int) -> None:
    """Measures single calls with 200 volumes on record, and with `crowd` volumes and snapshots."""
    for server in servers:
        server.turns = cycle(server.volumes)
    for level in (VOLUMES, crowd):
        if level > VOLUMES:
            with ThreadPoolExecutor() as pool:
                list(pool.map(lambda server: fill(server, crowd - VOLUMES, crowd), servers))
        clients = [Raw(server) for server in servers]
        for number in range(rounds + 1):
            for client in clients:
                for name, call in crowd_calls(client):
                    times = [call() for _ in range(samples if number else WARM)]
                    if number:
                        client.server.times.setdefault((f"{level:,} on record", name), []).append(times)


def figures(server: Server) -> dict:
    """Milliseconds of each call: p50 and p99 of all samples, and the range of the rounds' p50."""
    result = {}
    for (kind, name), rounds in server.times.items():
        every = sorted(1e3 * value for entry in rounds for value in entry)
        middles = [1e3 * statistics.median(entry) for entry in rounds]
        result[f"{kind}: {name}"] = {
            **{f"p{share}": every[min(len(every) - 1, len(every) * share // 100)] for share in PERCENTILES},
            "p50_of_rounds": [min(middles), max(middles)],
            "samples": len(every),
        }
    return {"ms": result, "resident_mib": resident_mib(server.pid), "pages": sorted(server.pages)}


def run(samples: int = SAMPLES, rounds: int = ROUNDS, crowd: int = 0) -> dict:
    """Returns all figures, or the reason why there are none."""
    import lab_bench

    why = lab_bench.missing()
    if why:
        return {"missing": why}
    results: dict = {"volumes": VOLUMES, "samples": samples, "rounds": rounds, "absent": []}
    with tempfile.TemporaryDirectory(prefix="api-bench-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        servers = [stack.enter_context(headrace_server(folder))]
        for program, start in (("moto_server", moto), ("ministack", ministack)):
            if not (PEERS / program).exists():
                results["absent"].append(program)
                continue
            servers.append(stack.enter_context(start(folder)))
        measure(servers, samples, rounds)
        if crowd > VOLUMES:
            measure_crowd(servers, crowd, samples, rounds)
        results["servers"] = {server.name: figures(server) for server in servers}
    return results


def show(console: Console, result: dict) -> None:
    """Shows a row for each call: p50 and p99 of each server, and how many times as fast ours is."""
    if "missing" in result:
        console.print(result["missing"])
        return
    names = list(result["servers"])
    title = f"AWS endpoint: ms, p50 (range of {result['rounds']} rounds) and p99; {result['samples'] * result['rounds']} samples a call"
    table = Table("call", *names, "times the fastest peer, p50", "p99", title=title)
    for call, ms in result["servers"][names[0]]["ms"].items():
        rows = [result["servers"][name]["ms"][call] for name in names]
        cells = [
            f"{row['p50']:.2f} ({row['p50_of_rounds'][0]:.2f}-{row['p50_of_rounds'][1]:.2f}), {row['p99']:.2f}"
            for row in rows
        ]
        ratios = [f"{min(row[key] for row in rows[1:]) / ms[key]:.1f}" if rows[1:] else "-" for key in ("p50", "p99")]
        table.add_row(call, *cells, *ratios)
    console.print(table)
    resident = {name: server["resident_mib"] for name, server in result["servers"].items()}
    console.print("Memory: " + ", ".join(f"{name} {mib:.0f} MiB" for name, mib in resident.items() if mib))
    for name, server in result["servers"].items():
        if any(size != 100 for size in server["pages"]):
            console.print(f"{name}: pages of {server['pages']} volumes where 100 were asked for")
    console.print(f"Bar: {BAR:.0f} times as fast as the fastest peer, raw")
    for program in result["absent"]:
        console.print(f"not here: {program} ({PEERS})")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--crowd", type=int, default=0, help="volumes and snapshots on record at the end")
    given = parser.parse_args()
    result = run(given.samples, given.rounds, given.crowd)
    show(Console(width=180), result)
    return 3 if "missing" in result else 0


if __name__ == "__main__":
    sys.exit(main())
