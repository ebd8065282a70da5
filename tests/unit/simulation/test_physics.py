"""Rules of the model that Python asks the core for: each against what the rule says in words, or a naive count of it."""

import math
from datetime import date
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.base import core
from headrace.calibration.prior import build_prior
from headrace.calibration.runs import BenchmarkLoad
from headrace.calibration.runs.model import RunMachine
from headrace.errors import InputError
from headrace.observe.run_storage import Caps
from headrace.observe.settings import check_settings
from headrace.workload import OpenWorkload
from headrace.workload.points import make_points


@pytest.mark.parametrize(
    ("storage", "ios_per_write", "reads", "copies", "data_members"),
    [
        ("gp3:500", 1, 0, 1, 1),
        ("4xgp3:500", 1, 0, 1, 4),
        ("raid1:2xgp3:500", 2, 0, 2, 1),
        ("raid1:3xgp3:500", 3, 0, 3, 1),
        ("raid10:4xgp3:500", 2, 0, 2, 2),
        ("raid10f2:3xgp3:500", 2, 0, 2, 1.5),
        # A write to one of two data chunks reads the other one (reconstruct-write), then writes data and parity (docs/decisions/0006).
        ("raid5:3xgp3:500", 3, 1, 1, 2),
        # From four members on: the old data and the old parity are read, or as many others.
        ("raid5:4xgp3:500", 4, 2, 1, 3),
        ("raid5:8xgp3:500", 4, 2, 1, 7),
    ],
)
def test_what_a_write_costs_on_each_layout(storage, ios_per_write, reads, copies, data_members):
    cost = core.storage_cost(storage)
    assert (cost["ios_per_write"], cost["reads_per_write"], cost["copies"]) == (ios_per_write, reads, copies)
    assert (cost["data_members"], cost["ios_per_read"]) == (data_members, 1)


def test_the_units_of_a_storage():
    units = {
        name: core.storage_cost("raid10:4xst1:500@512k")[name]
        for name in ("chunk_kib", "unit_kib", "hdd_unit_kib", "hdd_merge_kib")
    }
    assert units == {"chunk_kib": 512, "unit_kib": 256, "hdd_unit_kib": 1024, "hdd_merge_kib": 32}
    assert core.storage_cost("gp3:500")["chunk_kib"] is None


POINTS = st.lists(
    st.tuples(st.floats(0, 5000), st.floats(0, 5000), st.floats(0.5, 2048), st.floats(0.5, 2048), st.floats(1, 600)),
    min_size=1,
    max_size=8,
)


@given(
    points=POINTS,
    shares=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    storage=st.sampled_from(
        [
            "gp3:500",
            "2xst1:500",
            "raid1:3xgp3:500",
            "raid10:4xgp3:500@64k",
            "raid5:3xgp3:500",
            "raid5:6xgp3:500",
            "raid10f2:3xgp3:500",
        ]
    ),
)
def test_demand_on_volumes_is_counted_as_the_rules_say(points, shares, storage):
    reads, writes, read_kib, write_kib, seconds = (list(column) for column in zip(*points, strict=True))
    starts = [math.fsum(seconds[:index]) for index in range(len(seconds))]
    workload = OpenWorkload(
        name="any", kind="recorded", points=make_points(starts, seconds, reads, writes, read_kib, write_kib), sequential_read_share=shares[0],
        sequential_write_share=shares[1],
    )  # fmt: skip
    demand = core.demand_on_volumes(workload.to_core(), storage)
    cost = core.storage_cost(storage)

    def load_of(rate, kib, share):
        """(I/Os in units, MiB/s, MiB/s of disks) of requests of one size."""
        parts = 1 if cost["chunk_kib"] is None else max(1, math.ceil(kib / cost["chunk_kib"]))
        part = kib / parts
        sequential = share if part > 32 else 0.0
        disk = parts * (sequential * part + (1 - sequential) * math.ceil(part / 1024) * 1024)
        return rate * parts * math.ceil(part / 256), rate * kib / 1024, rate * disk / 1024

    for index in range(len(points)):
        r = load_of(reads[index], read_kib[index], shares[0])
        w = load_of(writes[index] * cost["ios_per_write"], write_kib[index], shares[1])
        # Products in another order: a few roundings of 2^-53 each.
        for name, a, b in zip(("iops", "mib_s", "hdd_mib_s"), r, w, strict=True):
            assert demand[name][index] == pytest.approx(a + b, rel=1e-12, abs=1e-9), name
        assert demand["t_s"][index] == pytest.approx(starts[index], rel=1e-12, abs=1e-9)
    assert demand["duration_s"] == seconds


@pytest.mark.parametrize(
    ("memory", "cache"), [(0.5, 0.25), (2, 1), (4, 2), (6, 4), (8, 6), (16, 12), (64, 48), (244, 183)]
)
def test_the_cache_a_memory_has_room_for(memory, cache):
    """A half up to 4 GiB, three quarters from 8 GiB on (innodb_dedicated_server), all but 2 GiB in between."""
    assert core.cache_gib_for(memory) == cache


@given(memory=st.floats(0.1, 24_576), more=st.floats(0, 1000), share=st.floats(0.05, 0.95))
def test_more_memory_is_never_less_cache_and_something_is_left(memory, more, share):
    cache = core.cache_gib_for(memory, share)
    assert cache <= core.cache_gib_for(memory + more, share)
    assert 0 < cache <= share * memory * (1 + 1e-12)
    # Half of a small memory, 2 GiB of a large one; subtracting rounds at most once at the memory's size.
    assert memory - cache >= min(2.0, memory / 2) - 1e-11


TPCC = {engine: core.mysql_tpcc(engine, 100.0) for engine in ("innodb", "myrocks")}


@pytest.mark.parametrize("engine", ["innodb", "myrocks"])
@pytest.mark.parametrize(
    ("settings", "syncs"),
    [
        ({"flush_log_at_trx_commit": 1, "sync_binlog": 1}, 3.0),
        ({"flush_log_at_trx_commit": 1, "sync_binlog": 0}, 1.0),
        # A hundredth of two writes, not none.
        ({"flush_log_at_trx_commit": 1, "sync_binlog": 100}, 1.02),
        ({"flush_log_at_trx_commit": 2, "sync_binlog": 1}, 2.0),
        ({"flush_log_at_trx_commit": 0, "sync_binlog": 0}, 0.0),
        ({"flush_log_at_trx_commit": 1, "sync_binlog": 1, "log_bin": False}, 1.0),
        # MariaDB's 3: at prepare and at commit.
        ({"flush_log_at_trx_commit": 3, "sync_binlog": 0}, 2.0),
        ({"flush_log_at_trx_commit": 3, "log_bin": False}, 1.0),
        # One of the three given: the others are what MySQL 8.0 has.
        ({"sync_binlog": 0}, 1.0),
        ({"flush_log_at_trx_commit": 2}, 2.0),
        # Nothing given: as in the published runs the standard comes from.
        ({}, 1.0),
    ],
)
def test_syncs_of_a_commit(engine, settings, syncs):
    assert core.database_under(TPCC[engine], settings)["log"]["syncs_per_commit"] == pytest.approx(syncs, rel=1e-12)


@pytest.mark.parametrize(("script", "options", "commits"), [("oltp_read_only", {}, 0), ("oltp_point_select", {}, 0), ("oltp_read_write", {}, 1),
                                                            ("oltp_read_write", {"skip_trx": True}, 4)])  # fmt: skip
@pytest.mark.parametrize(("at_commit", "sync_binlog"), [(1, 1), (1, 100), (2, 0), (2, 1), (1, 0)])
def test_syncs_follow_the_commits_of_a_script(script, options, commits, at_commit, sync_binlog):
    """A script that only reads commits nothing, and under autocommit every write commits, for any
    settings before."""
    database = core.mysql_sysbench({"script": script} | options)["database"]
    direct = core.mysql_sysbench(
        {"script": script, "flush_log_at_trx_commit": at_commit, "sync_binlog": sync_binlog} | options
    )["database"]
    under = core.database_under(database, {"flush_log_at_trx_commit": at_commit, "sync_binlog": sync_binlog})
    expected = commits * ((at_commit == 1) + (2 / sync_binlog if sync_binlog else 0))
    assert under["log"]["syncs_per_commit"] == pytest.approx(expected)
    assert under == direct
    # And back again: nothing of the commits was lost.
    assert core.database_under(under, {"flush_log_at_trx_commit": 1, "sync_binlog": 1}) == database


@pytest.mark.parametrize(("log", "commits"), [({"syncs_per_commit": 1.0}, 1.0), ({"syncs_per_commit": 12.0}, 4.0),
                                              ({"syncs_per_commit": 0.0, "redo_bytes_per_tx": 0.0, "binlog_bytes_per_tx": 0.0}, 0.0)])  # fmt: skip
def test_databases_from_before_commits_were_kept_tell_them_by_their_syncs(log, commits):
    old = TPCC["innodb"] | {
        "log": {name: value for name, value in (TPCC["innodb"]["log"] | log).items() if name != "commits_per_tx"}
    }
    core.mysql_check(old)
    assert (
        core.database_under(old, {"flush_log_at_trx_commit": 1, "log_bin": False})["log"]["syncs_per_commit"] == commits
    )


def test_settings_that_decide_nothing_leave_a_database_alone():
    for database in TPCC.values():
        assert core.database_under(database, {}) == database
        # The run's redo is not known: what is flushed stays, and this one is kept as the run's.
        under = core.database_under(database, {"redo_bytes": 1e9})
        retained = 1e9 if database["engine"] == "innodb" else None
        assert under == database | {"log": database["log"] | {"redo_capacity_bytes": retained}}
    pages = {"doublewrite": False, "io_capacity": 2**64 - 1, "io_capacity_max": 2**64 - 1}
    assert core.database_under(TPCC["myrocks"], pages) == TPCC["myrocks"]
    writes = core.database_under(TPCC["innodb"], pages)["writes"]
    assert (writes["doublewrite"], writes["background_per_s"], writes["flush_limit_per_s"]) == (False, 1e6, 1e9)


@given(measured=st.floats(64 * 2**20, 64 * 2**30), now=st.floats(64 * 2**20, 64 * 2**30))
def test_a_larger_redo_log_never_flushes_more(measured, now):
    """By hand: a page changed by a third of its touches is written once in a window of three quarters of the redo log."""
    database = TPCC["innodb"]
    under = core.database_under(database, {"redo_bytes": now, "measured_redo_bytes": measured})

    def pages(size):
        window = 0.75 * size / database["log"]["redo_bytes_per_tx"]
        return (
            math.fsum(
                item["pages"] * -math.expm1(-item["touches_per_tx"] / 3 * window) for item in database["popularity"]
            )
            / window
        )

    factor = under["writes"]["flush_per_tx"] / database["writes"]["flush_per_tx"]
    # Sums of a few dozen terms in another order: 1e-12 is thousands of roundings.
    assert factor == pytest.approx(pages(now) / pages(measured), rel=1e-12)
    assert (factor <= 1 + 1e-12) == (now >= measured) or factor == pytest.approx(1.0, rel=1e-9)


def test_what_a_page_written_back_costs():
    assert core.page_write_cost() == (1 + 1 / 16, 32 * 1024)
    assert core.page_write_cost(16_384, False) == (1, 16 * 1024)
    assert core.page_write_cost(65_536) == (1.25, 128 * 1024)


@pytest.mark.parametrize(
    "wrong",
    [{"flush_log_at_trx_commit": 4}, {"sync_binlog": -1}, {"io_capacity": -1.0}, {"redo_bytes": math.nan}, {"foo": 1}],
)
def test_settings_no_server_takes_are_refused(wrong):
    with pytest.raises(core.CoreError):
        core.database_under(TPCC["innodb"], wrong)


def test_what_a_run_description_takes_for_flush_log_at_trx_commit_the_simulator_takes_too():
    """MariaDB has 3: at prepare and at commit. Descriptions took it, sysbench's scripts did not, and standards took it for a commit that is not synced."""
    for value in range(4):
        assert check_settings({"flush_log_at_trx_commit": value}, "innodb") == {"flush_log_at_trx_commit": value}
        database = core.mysql_sysbench(
            {"script": "oltp_read_write", "flush_log_at_trx_commit": value, "log_bin": False}
        )["database"]
        assert database["log"]["syncs_per_commit"] == (1 if value in (1, 3) else 0)
        assert database["log"] == core.database_under(database, {"flush_log_at_trx_commit": value})["log"]
    with pytest.raises(InputError, match="0, 1 or 2"):
        check_settings({"flush_log_at_trx_commit": 3}, "myrocks")


@pytest.mark.parametrize("name", ["sysbench-tpcc", "sysbench-oltp", "hammerdb-tprocc", "own"])
@pytest.mark.parametrize(
    ("flavor", "version", "settings", "syncs"),
    [
        (None, None, {}, 3.0),
        ("mysql", "8.0.36", {}, 3.0),
        ("mysql", "8.0.36", {"sync_binlog": 100}, 1.02),
        ("mysql", "8.0.36", {"sync_binlog": 0}, 1.0),
        ("mysql", "8.0.36", {"binlog": False}, 1.0),
        # 1 came with 5.7.7; before 8.0 no binary log is written unless asked for.
        ("mysql", "5.7.6", {"binlog": True}, 1.0),
        ("mysql", "5.7.7", {"binlog": True}, 3.0),
        ("percona", "5.7", {"binlog": True}, 3.0),
        ("mysql", "5.6.40", {"binlog": True}, 1.0),
        ("mysql", "5.7.22", {}, 1.0),
        ("mariadb", "10.11.19-MariaDB", {"binlog": True}, 1.0),
        ("mariadb", "10.11.19-MariaDB", {"binlog": True, "sync_binlog": 1, "flush_log_at_trx_commit": 2}, 2.0),
    ],
)
def test_a_setting_left_out_is_the_servers_default_whatever_the_benchmark(name, flavor, version, settings, syncs):
    benchmark = (
        BenchmarkLoad(name, 1, 100_000, 1.0, "oltp_read_write", "uniform")
        if name != "own"
        else BenchmarkLoad(name, data_gib=1.0)
    )
    run = SimpleNamespace(benchmark=benchmark, flavor=flavor, engine_version=version, settings=settings, engine="innodb", threads=8, cache_gib=1.0, instance=None, machine=RunMachine(client_host="same"),
                          status=None, transactions=1.0, as_of=date(2020, 1, 1), caps=Caps(3000, 3000, 125, 125, 100))  # fmt: skip
    log = build_prior(run)["log"]
    # Some transactions commit nothing: two in 23 of TPROC-C.
    assert log["syncs_per_commit"] == pytest.approx(syncs * log["commits_per_tx"], rel=1e-12)


def test_processors_are_cores_of_a_speed():
    # 4.8 ms of a thread that shares a core of m5.2xlarge: 0.685 of it on a core by itself.
    clients = TPCC["innodb"]["clients"]
    assert clients["core_speed"] == 2.97 and core.core_ms(clients) == pytest.approx(0.685 * 4.8)
    # Two threads of a core; two cores.
    for name, expected_tps in (("m5.large", 2e3 / 4.8 / 2.97), ("m6g.large", 2e3 / (0.685 * 4.8) / 2.97)):
        instance = core.instance(name, "2024-06-01")
        assert core.processors_tps(clients, instance) == pytest.approx(expected_tps * instance["core_speed"])
    # Time that is not processor time is the same on any.
    slow = core.clients_at_speed(clients, 2.97 / 2)
    assert slow["cpu_ms"] == pytest.approx(9.6)
    assert slow["base_ms"] - core.core_ms(slow) == pytest.approx(clients["base_ms"] - core.core_ms(clients))
    assert core.clients_at_speed(clients, None) == clients
