"""Effect of each step of a consistent snapshot, measured on real servers under load.

    python benchmarks/consistent_snapshots.py [--flavor mariadb] [--storage 4xgp3:1] [--snapshots 50]

A server on an array of the lab is written to by some clients. The volume is snapshotted with all
steps, with steps left out, and member by member without any (the control). Each snapshot becomes a
new server; what that server has is compared with what the clients saw acknowledged, and with the
tagged GTID.

The lab's array is one device whose snapshot is of one instant. The control takes one snapshot for
each member, one after the other, and puts the chunks of each member together from its own
snapshot: bit for bit what snapshots of single volumes would give.

Needs what the tests with servers need: root, FUSE, MariaDB or MySQL.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from headrace import lab as labs
from headrace import servers
from headrace.errors import CouldNotRun, HeadraceError
from headrace.lab import Lab, Settings
from headrace.lab.waiting import wait_for_snapshot
from headrace.mysql import connect
from headrace.mysql.gtid import GtidSet
from headrace.operate.snapshots import restore
from headrace.operate.snapshots.services import LabService
from headrace.operate.snapshots.take import take
from headrace.operate.snapshots.targets import make_lab_request
from headrace.servers import Server
from headrace.servers.volumes import get_device

CLIENTS = 8  # a guess: enough for group commit, and for writes that overlap
# The cache is smaller than the data, so that pages are written all the time, to all members.
SMALL = {"innodb_buffer_pool_size": "24M", "log_bin": "ON", "sync_binlog": "1", "innodb_flush_log_at_trx_commit": "1"}
# Rows that are changed at random, and how many of them by a transaction; 2,000 bytes each.
ROWS, CHANGES = 30_000, 4
# Bytes: chunk of the lab's arrays unless the notation says otherwise (crates/catalog/src/spec.rs),
# and block of a snapshot.
CHUNK, BLOCK = 256 << 10, 512 << 10
# Between two calls of a script that takes one snapshot after the other, s: that EC2 takes some
# 0.3 s to answer is a guess.
CALL_S = 0.3
# Time that the load has run before a snapshot is taken, s.
WARM_S = 0.5
SCHEMA = (
    "CREATE DATABASE IF NOT EXISTS held",
    "CREATE TABLE held.a (client INT, n INT, filler VARCHAR(200), PRIMARY KEY (client, n)) ENGINE=InnoDB",
    "CREATE TABLE held.b (client INT, n INT, PRIMARY KEY (client, n)) ENGINE=InnoDB",
    "CREATE TABLE held.c (id INT PRIMARY KEY, filler VARCHAR(2000)) ENGINE=InnoDB",
    "INSERT INTO held.c SELECT id, REPEAT('c', 2000) FROM ({numbers}) AS numbers WHERE id <= {rows}",
    "CREATE TABLE held.m (n BIGINT AUTO_INCREMENT PRIMARY KEY, filler VARCHAR(200)) ENGINE=MyISAM",
)


def prepare(server: Server, torn: bool = False, rows: int = ROWS) -> None:
    """Creates the tables that `Writers` write to."""
    digits = " UNION ALL ".join(f"SELECT {digit} AS d" for digit in range(10))
    numbers = "SELECT 1 + " + " + ".join(f"{10**place} * t{place}.d" for place in range(5)) + " AS id FROM "
    numbers += ", ".join(f"({digits}) AS t{place}" for place in range(5))
    with connect(server.make_address(), 300) as connection, connection.cursor() as cursor:
        for statement in SCHEMA[: None if torn else -1]:
            cursor.execute(statement.replace("{numbers}", numbers).replace("{rows}", str(rows)))


class Writers:
    """Clients that write numbered transactions into two tables, and remember what was acknowledged
    and when. `torn`: one more client writes into a table of MyISAM."""

    def __init__(self, server: Server, clients: int = CLIENTS, torn: bool = False) -> None:
        self.server, self.clients, self.torn = server, clients, torn
        self.acknowledged: list[list[tuple[float, int]]] = [[] for _ in range(clients)]
        self.errors: list[str] = []
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Writers:
        with connect(self.server.make_address()) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT client, MAX(n) FROM held.a GROUP BY client")
            self.begun = dict(cursor.fetchall())
            cursor.execute("SELECT COUNT(*) FROM held.c")
            self.rows = int(cursor.fetchall()[0][0])
        self._threads = [threading.Thread(target=self._write, args=(index,)) for index in range(self.clients)]
        if self.torn:
            self._threads.append(threading.Thread(target=self._write_torn))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def by(self, moment: float) -> dict[int, int]:
        """Returns the last number of each client that was acknowledged before a moment (monotonic,
        s)."""
        begun = dict(self.begun)
        for client, acknowledged in enumerate(self.acknowledged):
            begun[client] = max([n for at, n in acknowledged if at < moment], default=begun.get(client, 0))
        return begun

    def _write(self, client: int) -> None:
        n, chance = self.begun.get(client, 0), random.Random(client)
        try:
            with connect(self.server.make_address(), 120) as connection, connection.cursor() as cursor:
                while not self._stop.is_set():
                    n += 1
                    cursor.execute("BEGIN")
                    cursor.execute("INSERT INTO held.a VALUES (%s, %s, REPEAT('x', 200))", (client, n))
                    cursor.execute("INSERT INTO held.b VALUES (%s, %s)", (client, n))
                    for row in sorted(chance.sample(range(1, self.rows + 1), CHANGES)):  # in order: no deadlocks
                        cursor.execute("UPDATE held.c SET filler = REPEAT(%s, 2000) WHERE id = %s", (n % 10, row))
                    cursor.execute("COMMIT")
                    self.acknowledged[client].append((time.monotonic(), n))
        except Exception as error:
            self.errors.append(str(error))

    def _write_torn(self) -> None:
        try:
            with connect(self.server.make_address(), 120) as connection, connection.cursor() as cursor:
                while not self._stop.is_set():
                    cursor.execute("INSERT INTO held.m (filler) VALUES (REPEAT('m', 150))")
        except Exception as error:
            self.errors.append(str(error))


@dataclass
class Findings:
    """State of a restored server. `lost`: acknowledged before and not there. `torn`: transactions
    that are there in part, or with a hole before them. `beyond`: GTIDs after the tagged position.
    `crashed`: what CHECK TABLE said of the MyISAM table."""

    opened: bool
    why: str = ""
    lost: int = 0
    torn: int = 0
    gtid_held: bool = True
    beyond: int = 0
    crashed: str = ""
    open_s: float = 0.0

    @property
    def good(self) -> bool:
        """Nothing is missing or broken."""
        return self.opened and self.lost == 0 and self.torn == 0 and self.gtid_held


def examine(server: Server, expected: dict[int, int], gtid: str, torn: bool = False) -> Findings:
    """Compares a restored server with what was acknowledged and tagged."""
    findings = Findings(opened=True)
    with connect(server.make_address(), 120) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT client, COUNT(*), MIN(n), MAX(n) FROM held.a GROUP BY client")
        first = {row[0]: row[1:] for row in cursor.fetchall()}
        cursor.execute("SELECT client, COUNT(*), MIN(n), MAX(n) FROM held.b GROUP BY client")
        second = {row[0]: row[1:] for row in cursor.fetchall()}
        findings.torn = sum(first.get(entry) != second.get(entry) for entry in {*first, *second})
        findings.torn += sum(count != high or low != 1 for count, low, high in first.values())
        for client, n in expected.items():
            have = first.get(client, (0, 0, 0))[2]
            findings.lost += max(0, n - have)
        for table in ("a", "b", "c"):
            cursor.execute(f"CHECK TABLE held.{table} EXTENDED")
            if cursor.fetchall()[-1][3] != "OK":
                findings.torn += 1
        if torn:
            cursor.execute("CHECK TABLE held.m EXTENDED")
            rows = [str(row[3]) for row in cursor.fetchall()]
            findings.crashed = "" if rows == ["OK"] else "; ".join(rows)
        if gtid:
            flavor = server.flavor
            cursor.execute("SELECT @@gtid_executed" if flavor == "mysql" else "SELECT @@gtid_binlog_pos")
            has = GtidSet.parse(cursor.fetchall()[0][0], flavor)
            tagged = GtidSet.parse(gtid, flavor)
            findings.gtid_held, findings.beyond = has.contains(tagged), has.minus(tagged).count()
    return findings


def composed(lab: Lab, spec: str, taken: list[str], name: str) -> str:
    """A snapshot whose member `i` is as in the i-th of these snapshots of the array."""
    for entry in taken:
        wait_for_snapshot(lab, entry)
    result: list[str] = []
    try:
        devices = []
        for number, entry in enumerate(taken):
            result.append(lab.create(spec, name=f"{name}-{number}", snapshot=entry)["id"])
            devices.append(get_device(lab.attach(result[-1], unpaced=True, probe=False)))
        target = os.open(devices[-1], os.O_RDWR | os.O_DIRECT)
        try:
            for number, entry in enumerate(taken[:-1]):
                _copy_member(lab, devices[number], target, number, len(taken), entry, taken[-1])
            os.fsync(target)
        finally:
            os.close(target)
        lab.detach(result[-1])
        whole = lab.create_snapshot(result[-1])["id"]
        wait_for_snapshot(lab, whole)
        return whole
    finally:
        for volume in result:
            if lab.describe(volume).get("attachment"):
                lab.detach(volume, force=True)
            lab.delete(volume)


def _copy_member(lab: Lab, device: str, target: int, number: int, members: int, text: str, last: str) -> None:
    """The chunks of one member, where the two snapshots differ."""
    source, start = os.open(device, os.O_RDONLY | os.O_DIRECT), 0
    try:
        with mmap.mmap(-1, CHUNK) as chunk:
            while start is not None:
                page = lab.snapshot_blocks(last, since=text, start=start)
                for block in page["blocks"]:
                    for at in range(block["block"] * BLOCK, (block["block"] + 1) * BLOCK, CHUNK):
                        if at // CHUNK % members == number:
                            os.preadv(source, [chunk], at)
                            os.pwritev(target, [chunk], at)
                start = page["next"]
    finally:
        os.close(source)


# --- the variants ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Variant:
    """The steps of a snapshot that are done. `members`: one snapshot after the other instead of one
    call."""

    name: str
    lock: bool = True
    freeze: bool = True
    members: bool = False


VARIANTS = (
    Variant("all steps"),
    Variant("no lock", lock=False),
    Variant("no freeze", freeze=False),
    Variant("one call alone", lock=False, freeze=False),
    Variant("member by member, all steps", members=True),
    Variant("member by member alone (control)", lock=False, freeze=False, members=True),
)


class MemberByMember(LabService):
    """One snapshot after the other, as scripts do that know single volumes only."""

    def __init__(self, lab: Lab, members: int) -> None:
        super().__init__(lab)
        self.count = members

    def create(self, volumes, tags, description, token):
        """Takes one snapshot of each member of the array, CALL_S apart."""
        result = []
        for number in range(self.count):
            time.sleep(CALL_S if number else 0)
            result += super().create(volumes, tags, description, f"{token}-{number}")
        return result


@dataclass
class Round:
    """One snapshot and what came of it."""

    variant: str
    frozen_ms: float
    locked_ms: float
    findings: Findings = field(default_factory=lambda: Findings(opened=False))


def run_round(lab: Lab, server: Server, variant: Variant, number: int, members: int, torn: bool) -> Round:
    """Takes one under load, restores it, looks at it, and removes it."""
    with Writers(server, torn=torn) as writers:
        time.sleep(WARM_S)
        moments: dict[str, float] = {"begun": time.monotonic()}
        request = replace(make_lab_request(lab, server.name), lock=variant.lock, freeze=variant.freeze)
        if variant.members:
            request = replace(request, service=MemberByMember(lab, members))

        def note(step: str) -> None:
            moments.setdefault(step, time.monotonic())

        got = take(request, note)
        taken = [
            snapshot.id for snapshot in sorted(got.snapshot_set.snapshots, key=lambda snapshot: snapshot.started_at)
        ]
        # Commits acknowledged before the snapshot was asked for must be there.
        expected = writers.by(moments.get("locked", moments["begun"]))
        time.sleep(WARM_S)
    if writers.errors:
        raise CouldNotRun("the load", writers.errors[0])
    result = Round(variant.name, got.frozen_ms, got.locked_ms)
    name = f"look{number}"
    began = time.monotonic()
    try:
        if not variant.members:
            looked = restore.restore_server(lab, got.snapshot_set, name)
        else:
            whole = composed(lab, server.storage, taken, f"mixed{number}")
            taken.append(whole)
            looked = servers.bring_up(lab, name=name, flavor=server.flavor, storage=server.storage, seed_from=whole, settings=SMALL, timeout_s=60)  # fmt: skip
        opened_s = time.monotonic() - began
        result.findings = examine(looked, expected, got.snapshot_set.gtid, torn)
        result.findings.open_s = opened_s
    except HeadraceError as error:
        result.findings = Findings(opened=False, why=error.rule[:300])
    except Exception as error:
        result.findings = Findings(opened=False, why=f"opened, and then: {error}"[:300])
    finally:
        remove(lab, name)
        for entry in taken:
            lab.delete_snapshot(entry)
    return result


def remove(lab: Lab, name: str) -> None:
    """Removes a server, if it exists."""
    try:
        servers.destroy(servers.find(lab, name))
    except HeadraceError:
        return


def percentile(values: list[float], share: float) -> float:
    """Returns a percentile by the nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def summary(variant: str, rounds: list[Round]) -> dict[str, object]:
    """Returns a row of the table."""
    findings = [entry.findings for entry in rounds]
    opened = [finding for finding in findings if finding.opened]
    return {
        "variant": variant,
        "n": len(rounds),
        "frozen_p50_ms": round(percentile([entry.frozen_ms for entry in rounds], 0.5), 1),
        "frozen_p95_ms": round(percentile([entry.frozen_ms for entry in rounds], 0.95), 1),
        "locked_p95_ms": round(percentile([entry.locked_ms for entry in rounds], 0.95), 1),
        "opened": len(opened),
        "good": sum(finding.good for finding in findings),
        "lost": sum(entry.lost for entry in opened),
        "torn": sum(entry.torn for entry in opened),
        "beyond_tag": sum(entry.beyond for entry in opened),
        "myisam_broken": sum(bool(entry.crashed) for entry in opened),
        "open_p50_s": round(statistics.median([entry.open_s for entry in opened]), 2) if opened else 0.0,
        "why": next((finding.why for finding in findings if finding.why), ""),
    }


def print_rows(rows: list[dict[str, object]]) -> None:
    """Prints rows as a table."""
    table = Table(title="Effect of each step", show_lines=False)
    columns = [name for name in rows[0] if name != "why"]
    for name in columns:
        table.add_column(name.replace("_", " "))
    for row in rows:
        table.add_row(*(str(row[name]) for name in columns))
    Console(width=180).print(table)
    for row in rows:
        if row["why"]:
            print(f"{row['variant']}: {row['why']}")


def measure(folder: Path, flavor: str, storage: str, count: int, texts: list[str], torn: bool, tell: Callable) -> list:
    """All variants, in turn, so that what the machine does meanwhile meets all of them."""
    # Fast lab time: EC2 takes a snapshot of one volume every 15 s at most, and so does the lab.
    lab = labs.start_lab(folder, settings=Settings(metrics_port=0, api_port=0, time_scale=1_000_000))
    members = len(lab.describe(lab.create(storage, name="probe")["id"])["members"])
    lab.delete("probe")
    server = servers.bring_up(lab, name="db", flavor=flavor, storage=storage, settings=SMALL)
    prepare(server, torn)
    chosen = [variant for variant in VARIANTS if not texts or any(variant.name.startswith(word) for word in texts)]
    rounds: list[Round] = []
    for number in range(count):
        for place, variant in enumerate(chosen):
            rounds.append(run_round(lab, server, variant, number * len(chosen) + place, members, torn))
            tell(rounds[-1])
    return rounds


def main() -> int:
    """Prints the table; 1 where a snapshot with all steps was not good."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--flavor", default="mariadb", choices=("mariadb", "mysql"))
    parser.add_argument("--storage", default="4xgp3:1")
    parser.add_argument("--snapshots", type=int, default=10, help="of each variant")
    parser.add_argument("--variant", action="append", default=[], help="beginning of its name; repeatable")
    parser.add_argument("--myisam", action="store_true", help="also write a table of MyISAM")
    parser.add_argument("--json", type=Path, help="write every round there")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="lab-"))

    def tell(entry: Round) -> None:
        print(f"{entry.variant}: frozen {entry.frozen_ms:.0f} ms, {entry.findings}", file=sys.stderr)

    try:
        rounds = measure(folder, given.flavor, given.storage, given.snapshots, given.variant, given.myisam, tell)
    finally:
        with labs.Lab(folder) as lab:
            for server in servers.list_servers(lab):
                servers.destroy(server)
            labs.stop_lab(lab, force=True)
        shutil.rmtree(folder, ignore_errors=True)
    names = list(dict.fromkeys(entry.variant for entry in rounds))
    rows = [summary(name, [entry for entry in rounds if entry.variant == name]) for name in names]
    print_rows(rows)
    if given.json:
        given.json.write_text(json.dumps({"rows": rows, "rounds": [asdict(entry) for entry in rounds]}, indent=2))
    whole = [entry for entry in rounds if entry.variant == VARIANTS[0].name]
    return 0 if all(entry.findings.good for entry in whole) else 1


if __name__ == "__main__":
    raise SystemExit(main())
