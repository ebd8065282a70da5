"""Cost of semi-sync for a source, predicted from its runs without it and the configuration alone.

    python benchmarks/semisync_bench.py [--flavor mariadb|mysql] [--cells N] [--draw SEED] [--results FILE] [--quiet-lock FILE]

A source on a gp3 of the lab, durable (1/1), and one replica that applies what it gets. Three runs
without semi-sync (1, 4 and 16 clients) and a sample of the binary log calibrate the workload. Then
round trip, sync_relay_log, the replica's volume and the wait point change from cell to cell, and
the transactions a second of each are compared with `headrace predict --replica --semi-sync`.

A round trip is added by a relay (relay.py) and measured as a client does:
the median of an empty statement's answers, before the load. A cell in which the source went on
without its replica (by status) does not count. `--quiet-lock`: a file that is locked while
something is measured. Needs root, /dev/fuse, sysbench and the server.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from headrace import SemiSyncOptions, calibrate, predict_replica
from headrace.base import core
from headrace.bench import SysbenchOltp, run
from headrace.errors import CouldNotRun, HeadraceError
from headrace.experiment import DataSet, ExperimentLab, machine, write_lab_counts
from headrace.experiment.data import make_target, scan
from headrace.experiment.replication import ReplicaCell, ReplicaLoad, ReplicationLab, WrittenSource, make_replica
from headrace.experiment.replication.statements import Statements
from headrace.mysql import connect
from headrace.mysql.state import observe
from headrace.servers.topology import seeding
from headrace.workload import TransactionWorkload
from headrace.workload.replica import add_measured_replica
from prove_accuracy import Quiet
from relay import Relay

# Rows of each of 8 tables: 0.1 GiB, all of it in both caches.
ROWS, TABLES = 50_000, 8
ROW_BYTES = 247
SOURCE_STORAGE = "gp3:20:3000"
CACHE_MIB = 192
CALIBRATED_ON = (1, 4, 16)
# Seconds of a run that calibrates, of a cell, and those that do not count.
CALIBRATION_S, CELL_S, WARMUP_S = 20, 10, 2
PINGS = 60
# The source waits so long for an acknowledgement: longer than any cell needs.
TIMEOUT_MS = 60_000
# A replica that is made later applies all of the runs before it first.
CAUGHT_UP_S = 300.0
# The acceptance figure, percent.
BAR = 20.0

# Longest time that others are kept out, s (--quiet-lock).
HOLD_S = 250.0


@dataclass(frozen=True)
class SemiSyncCell:
    """`delay_ms`: one way, None: no relay. `storage`: of the replica."""

    clients: int
    delay_ms: float | None
    sync_relay_log: int
    storage: str
    wait_point: str = "AFTER_SYNC"

    def words(self, round_trip_ms: float) -> str:
        """The row's name."""
        return (
            f"{self.clients} clients, {round_trip_ms:.1f} ms, sync_relay_log {self.sync_relay_log}, "
            f"{self.storage}, {self.wait_point}"
        )


SLOW, FAST = "gp3:20:3000", "io2:20:10000"
CELLS = (
    SemiSyncCell(1, None, 10_000, SLOW),
    SemiSyncCell(16, 5.0, 10_000, SLOW),
    SemiSyncCell(16, 5.0, 10_000, SLOW, "AFTER_COMMIT"),
    SemiSyncCell(1, 10.0, 0, SLOW),
    SemiSyncCell(1, None, 1, SLOW),
    SemiSyncCell(16, None, 1, SLOW),
    SemiSyncCell(4, 2.0, 1, FAST),
    SemiSyncCell(16, None, 1, FAST),
    SemiSyncCell(4, 2.0, 10_000, FAST, "AFTER_COMMIT"),
    SemiSyncCell(16, 20.0, 10_000, FAST),
    SemiSyncCell(16, 20.0, 10_000, FAST, "AFTER_COMMIT"),
    SemiSyncCell(16, None, 10_000, FAST),
    SemiSyncCell(4, 5.0, 10_000, FAST),
)


def drawn(number: int, seed: int) -> list[SemiSyncCell]:
    """Cells at random, of the clients that are calibrated on (others are the source model's to say):
    what semi-sync adds is what is asked."""
    chance = random.Random(seed)
    cells = []
    for _ in range(number):
        delay_ms = round(math.exp(chance.uniform(math.log(1.0), math.log(30.0))), 1)
        cells.append(
            SemiSyncCell(
                chance.choice(CALIBRATED_ON),
                delay_ms,
                chance.choice((0, 1, 10_000, 10_000)),
                chance.choice((SLOW, FAST)),
                chance.choice(("AFTER_SYNC", "AFTER_COMMIT")),
            )
        )
    return cells


class Pair:
    """A source and the replica of the cells at hand."""

    def __init__(self, lab: ReplicationLab, source: WrittenSource, replica: Statements) -> None:
        self.lab, self.source, self.replica = lab, source, replica
        self.links = ExitStack()

    def linked(self, delay_ms: float | None, semi_sync: bool) -> float:
        """Receives by a link with this delay, with its side of semi-sync on or off; the round trip,
        ms."""
        self.links.close()
        port = self.source.server.port
        sql, dialect = self.replica, self.replica.dialect
        if delay_ms is not None:
            port = self.links.enter_context(Relay(("127.0.0.1", port or 0), delay_ms / 1e3)).port
        sql.run(dialect.stop())
        sql.follow(self.source.server, port)
        sql.run(dialect.switch_semi_sync("replica", semi_sync))
        sql.run(dialect.start_receive())
        sql.run(dialect.start_apply())
        with Statements(self.source.server) as source:
            until = time.monotonic() + CAUGHT_UP_S
            while sql.count_received() < source.count_done() or sql.count_done() < source.count_done():
                if time.monotonic() > until:
                    raise CouldNotRun("replica", f"has not caught up in {CAUGHT_UP_S:g} s", "")
                time.sleep(0.1)
        return self.round_trip(port)

    def round_trip(self, port: int | None) -> float:
        """Returns the median answer to an empty statement, ms."""
        address = replace(self.source.server.make_address(tcp=True), port=port)
        moments = []
        with connect(address, 10.0) as connection, connection.cursor() as cursor:
            for _ in range(PINGS):
                began = time.perf_counter()
                cursor.execute("DO 0")
                moments.append(1e3 * (time.perf_counter() - began))
        return statistics.median(moments)

    def run(self, clients: int, seconds: int, store: Path | str, name: str | None = None):
        """Runs the load on the source."""
        load = self.source.load
        return run(
            load.benchmark,
            make_target(self.source.server),
            seconds=seconds,
            warmup_s=WARMUP_S,
            threads=clients,
            seed=load.seed,
            store=store,
            name=name,
        )


def waits(source: Statements) -> tuple[float, float]:
    """Commits that waited for an acknowledgement so far, and how long in all, ms."""
    role = "master" if source.mariadb else "source"
    status = source.read_status()
    prefix = f"rpl_semi_sync_{role}_tx"
    return status[f"{prefix}_waits"], status[f"{prefix}_wait_time"] / 1e3


def calibrated_on(pair: Pair, folder: Path) -> TransactionWorkload:
    """The workload of the source's runs without semi-sync."""
    records = [pair.run(clients, CALIBRATION_S, folder, f"{clients} clients") for clients in CALIBRATED_ON]
    for record in records:
        pair.lab.say(f"without semi-sync: {record.document['name']}, {record.summary['tps']:.1f} tps")
    workload = calibrate([write_lab_counts(record) for record in records], least_seconds=0.9 * CALIBRATION_S)
    return add_measured_replica(workload, {"events_per_tx": pair.source.read_sample().events})


def predicted(workload: TransactionWorkload, cell: SemiSyncCell, replica: ReplicaCell, trip_ms: float) -> dict:
    """Transactions a second of the source, and what a commit waits, ms."""
    instance, _ = machine.choose_instance(core.newest_date())
    semi_sync = SemiSyncOptions((trip_ms,), timeout_ms=TIMEOUT_MS, wait_point=cell.wait_point.lower().replace("_", "-"))
    source_tps = {}
    for name, request in (("alone", None), ("semi_sync", semi_sync)):
        prediction = predict_replica(
            workload,
            SOURCE_STORAGE,
            make_replica(replica.with_(sync_relay_log=cell.sync_relay_log)),
            instance=instance,
            cache_gib=CACHE_MIB / 1024,
            threads=cell.clients,
            seconds=CELL_S,
            semi_sync=request,
            drain_s=0,
            seed=None,
            draws=0,
        )
        source_tps[name] = prediction.summary["source_tps"]
        if request is not None:
            price = prediction.summary["semi_sync"]
            assert price is not None
            source_tps["price"] = dict(price)
    return source_tps


def measured(pair: Pair, cell: SemiSyncCell, workload: TransactionWorkload, replica: ReplicaCell) -> dict | None:
    """A row; None where the source went on without its replica."""
    with Statements(pair.source.server) as source:
        source.run(source.dialect.switch_semi_sync("source", False))
        pair.replica.run((f"SET GLOBAL sync_relay_log = {cell.sync_relay_log}",))
        trip_ms = pair.linked(cell.delay_ms, True)
        answer = predicted(workload, cell, replica, trip_ms)
        source.run(source.dialect.switch_semi_sync("source", True, timeout_ms=TIMEOUT_MS, count=1))
        point = source.dialect.name_semi_sync_variable("source", "wait_point")
        source.run((f"SET GLOBAL {point} = '{cell.wait_point}'",))
        before, load_before = (observe(source.connection, "source").semi_sync, waits(source)), os.getloadavg()[0]
        with tempfile.TemporaryDirectory() as unwanted:
            tps = pair.run(cell.clients, CELL_S, unwanted).summary["tps"]
        after = (observe(source.connection, "source").semi_sync, waits(source))
        source.run(source.dialect.switch_semi_sync("source", False))
    alone = after[0].no_tx - before[0].no_tx
    if alone or not after[0].source_status or after[0].yes_tx == before[0].yes_tx:
        pair.lab.say(f"{cell.words(trip_ms)}: does not count, {alone} commits were not acknowledged by a replica")
        return None
    waited = (after[1][1] - before[1][1]) / max(after[1][0] - before[1][0], 1.0)
    row = {
        "cell": asdict(cell),
        "words": cell.words(trip_ms),
        "round_trip_ms": trip_ms,
        "tps": tps,
        "predicted_tps": answer["semi_sync"],
        "predicted_alone_tps": answer["alone"],
        "error_percent": 100.0 * (answer["semi_sync"] / tps - 1.0),
        "waited_ms": waited,
        "price": answer["price"],
        "load_average": [load_before, os.getloadavg()[0]],
    }
    pair.lab.say(
        f"{row['words']}: {tps:.1f} tps, predicted {answer['semi_sync']:.1f} ({row['error_percent']:+.1f} %), "
        f"a commit waited {waited:.2f} ms"
    )
    return row


def table(rows: list[dict]) -> str:
    """Returns the table in Markdown."""
    lines = ["| clients, round trip, relay log, replica, wait point | tps | predicted | without |", "|---|---|---|---|"]
    lines += [
        f"| {row['words']} | {row['tps']:.0f} | {row['predicted_tps']:.0f} ({row['error_percent']:+.0f} %) | "
        f"{row['predicted_alone_tps']:.0f} |"
        for row in rows
    ]
    return "\n".join(lines)


def cells_measured(lab: ReplicationLab, flavor: str, cells: Sequence[SemiSyncCell], quiet: Quiet) -> dict:
    """Runs of the calibration and a row for each cell."""
    benchmark = SysbenchOltp("oltp_write_only", TABLES, ROWS, "uniform")
    data = DataSet(f"semi-sync-{flavor}", benchmark, ROW_BYTES * ROWS * TABLES / 2**30, flavor=flavor)
    load = ReplicaLoad(f"semi-sync, {flavor}", data, benchmark, max(CALIBRATED_ON), 0)
    mode = "optimistic" if flavor == "mariadb" else "ordered"
    rows: list[dict] = []
    workload = None
    with lab.open_written_source(load, SOURCE_STORAGE) as source, ExitStack() as ends:
        ends.callback(quiet.free)
        with Statements(source.server) as sql:
            seeding.load_semi_sync(sql.connection, sql.dialect, source.server.name)
        scan(make_target(source.server))
        for storage in dict.fromkeys(cell.storage for cell in cells):
            replica = ReplicaCell(f"replica on {storage}", load, storage, CACHE_MIB, workers=4, mode=mode)
            with lab.open_replica(replica, source) as (server, sql), tempfile.TemporaryDirectory() as folder:
                seeding.load_semi_sync(sql.connection, sql.dialect, server.name)
                pair = Pair(lab, source, sql)
                with pair.links:
                    quiet.free()
                    pair.linked(None, False)
                    if workload is None:
                        with quiet.gate():
                            workload = calibrated_on(pair, Path(folder))
                    for cell in (cell for cell in cells if cell.storage == storage):
                        try:
                            with quiet.gate():
                                row = measured(pair, cell, workload, replica)
                        except HeadraceError as error:
                            lab.say(f"{cell}: {error}")
                            continue
                        rows += [] if row is None else [row]
    return {"flavor": flavor, "workload": workload.to_document() if workload else None, "rows": rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flavor", choices=("mariadb", "mysql"), default="mariadb")
    parser.add_argument("--cells", type=int, default=len(CELLS))
    parser.add_argument("--draw", type=int, metavar="SEED", help="cells drawn at random")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--quiet-lock")
    arguments = parser.parse_args()
    if lacks := machine.list_missing(arguments.flavor):
        print("semi-sync: skipped, this machine lacks: " + " ".join(lacks))
        return 0
    say = lambda text: print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)  # noqa: E731
    with ExperimentLab(data_gib=1.0) as place:
        result = cells_measured(
            ReplicationLab(place, say=say),
            arguments.flavor,
            CELLS[: arguments.cells] if arguments.draw is None else drawn(arguments.cells, arguments.draw),
            Quiet(arguments.quiet_lock, HOLD_S),
        )
    rows = result["rows"]
    print(f"### Semi-sync, {arguments.flavor}\n\n{table(rows)}\n")
    if rows:
        off = [abs(row["error_percent"]) for row in rows]
        print(f"n = {len(off)}: median {statistics.median(off):.1f} %, worst {max(off):.1f} % (bar {BAR:g} %).")
    if arguments.results:
        arguments.results.write_text(
            json.dumps(result | {"machine": machine.collect_machine_facts(arguments.flavor)}, indent=1) + "\n"
        )
    return 0 if rows and max(abs(row["error_percent"]) for row in rows) <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
