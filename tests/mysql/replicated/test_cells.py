"""Replicas measured on the lab: what is counted of them follows from how they are set up.

Rates depend on what else this machine does and are not judged here, but counts per transaction are
the server's own. CELLS=N measures N cells of each flavor that nobody calibrated on, and holds the
predictions to their bars (make soak).
"""

from __future__ import annotations

import os

import pytest

from headrace import servers
from headrace.bench import SysbenchOltp
from headrace.errors import HeadraceError
from headrace.experiment import DataSet, ExperimentLab
from headrace.experiment.replication import (
    ReplicaCell,
    ReplicaLoad,
    ReplicationLab,
    calibrate_workload,
    compute_errors,
    measure_course,
    score,
)

TABLES, ROWS = 4, 60_000  # 57 MiB: more than the smaller cache, less than the larger one
CELLS = int(os.environ.get("CELLS", "0"))


def load_of(flavor: str, rows: int = ROWS, seconds: int = 4) -> ReplicaLoad:
    benchmark = SysbenchOltp("oltp_write_only", TABLES, rows, "uniform")
    data = DataSet(f"small-{flavor}", benchmark, 247 * rows * TABLES / 2**30, flavor=flavor)
    return ReplicaLoad(f"small-{flavor}", data, benchmark, 8, seconds)


@pytest.fixture(scope="module")
def lab():
    with ExperimentLab(data_gib=0.5) as place, ReplicationLab(place) as lab:
        yield lab


def cell(load: ReplicaLoad, cache_mib: int, **more) -> ReplicaCell:
    words = f"{cache_mib} MiB {more}"
    usual = {"words": words, "load": load, "storage": "gp3:10:3000", "cache_mib": cache_mib}
    # A cell needs 200 transactions; a busy machine applied 70 to 80 in a second.
    return ReplicaCell(**(usual | {"warmup_s": 1.0, "seconds": 10.0} | more))


def test_counts_follow_from_cache_and_durability(lab):
    load = load_of("mariadb")
    source = lab.get_source(load)
    log = source.read_sample()
    # All that the source's log says it wrote is in its file, and 4 rows of a transaction are 4 table
    # maps, 4 annotations and 4 rows between GTID and XID.
    assert len(log.transactions) == source.transactions
    assert log.events == pytest.approx(14.0, abs=0.01)
    small = lab.drain(cell(load, 40))
    # Without flushes a replica may be through within a second: all of it counts.
    large = lab.drain(cell(load, 256, flush_log=2, sync_binlog=0, warmup_s=0.0))
    # 40 MiB, of which up to 24 are kept free (innodb_lru_scan_depth), are less than the 57 of data:
    # most of 6 leaves of a transaction are read again and again. In 256 MiB all data stay.
    assert small.per.reads > 1.0
    assert large.per.reads < 0.1
    # Durable: redo, binary log and the filesystem's log of a file that grows. Else: none of them.
    assert small.per.volume.flushes > 2.0
    assert large.per.volume.flushes < 0.5
    assert small.per.group == pytest.approx(1.0)
    # More I/Os than the volume's cap cannot be done; its bucket adds a burst of a second's worth.
    done = (small.per.volume.reads + small.per.volume.writes) * small.per.transactions
    assert done <= 3000 * (small.per.seconds + 1.0)
    assert calibrate_workload([small], log).replica is not None


@pytest.mark.skipif("COURSES" not in os.environ, reason="COURSES=1 follows a load of its own (a minute)")
def test_lag_goes_on_growing_after_the_load(lab):
    # gp2 of 20 GiB without credits has 100 IOPS, and a durable commit of one thread takes 4 requests
    # (redo, binary log, twice the log of the filesystem) and the pages it reads: at most 25 of 60
    # transactions a second.
    result = measure_course(lab, cell(load_of("mariadb"), 40, storage="gp2:20", balance_percent=0.0), 60, 4)
    peak_at_s, peak_s = result.peak
    assert peak_s > result.lag_at_end_s
    assert peak_at_s > result.load_s
    assert result.looks[-1].applied == result.looks[-1].written


@pytest.mark.skipif(not CELLS, reason="CELLS=N measures N cells of each flavor")
@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_cells_never_calibrated_on(flavor):
    try:
        servers.find_program(flavor)
    except HeadraceError as error:
        pytest.skip(str(error))
    import sys
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
    import replica_bench  # pyright: ignore[reportMissingImports]

    reference, others = replica_bench.cells(flavor)
    with ExperimentLab(data_gib=2.0) as place, ReplicationLab(place) as lab:
        log = lab.get_source(reference[0].load).read_sample()
        workload = calibrate_workload([lab.drain(entry) for entry in reference], log)
        scores = score(workload, [lab.drain(other) for other in others[:CELLS]])
    median, worst = compute_errors(scores)
    texts = [
        f"{score.drained.cell.words}: {score.error_percent:+.0f} %, load {score.drained.load_average}"
        for score in scores
    ]
    assert median <= replica_bench.MEDIAN_BAR, texts
    assert worst <= replica_bench.WORST_BAR, texts
