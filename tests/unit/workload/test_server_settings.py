"""Settings that can be asked: each changes what it must and nothing else, and what is not known is refused by name."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import headrace
from headrace.base import core
from headrace.errors import InputError
from headrace.workload.server import SourceServer
from headrace.workload.server_settings import SETTINGS

SHOP = headrace.sysbench_oltp(cache_gib=4, threads=8, tables=8, table_size=5_000_000, redo_gib=1.0)
MYSQL = replace(SHOP, server=SourceServer(flavor="mysql"))
ROCKS = headrace.sysbench_tpcc(warehouses=100, engine="myrocks", cache_gib=4, threads=8)


def changes(before: dict, after: dict) -> dict:
    """The figures of a database that differ, by table and name."""
    return {
        (table, name): value
        for table, figures in after.items()
        if isinstance(figures, dict)
        for name, value in figures.items()
        if value != before[table][name]
    }


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["innodb_io_capacity=2000"], {("writes", "background_per_s"): 2000.0}),
        (["io_capacity=2000"], {("writes", "background_per_s"): 2000.0}),  # as run descriptions name it
        (["INNODB-IO-CAPACITY-MAX = 4000"], {("writes", "flush_limit_per_s"): 4000.0}),
        (["innodb_doublewrite=OFF"], {("writes", "doublewrite"): False}),
        # One sync of the redo log for each commit, and none of the binary log.
        (["sync_binlog=0"], {("log", "syncs_per_commit"): 1.0}),
        (["innodb_flush_log_at_trx_commit=2", "sync_binlog=0"], {("log", "syncs_per_commit"): 0.0}),
        (["innodb_redo_log_capacity=1G"], {}),  # as it was
        ([], {}),
    ],
)
def test_a_setting_changes_what_it_decides_and_nothing_else(settings, expected):
    changed = headrace.with_settings(SHOP, settings)
    assert changes(SHOP.database, changed.database) == expected
    assert (changed.covariance, changed.cache_gib, changed.name) == (SHOP.covariance, SHOP.cache_gib, SHOP.name)


def test_a_larger_redo_log_flushes_less_as_the_core_says():
    changed = headrace.with_settings(SHOP, ["innodb_redo_log_capacity=16G"]).database
    direct = core.database_under(SHOP.database, {"redo_bytes": 16 * 2.0**30, "measured_redo_bytes": 2.0**30})
    assert changed == direct and changed["writes"]["flush_per_tx"] < SHOP.database["writes"]["flush_per_tx"]
    # From there on this is its redo log: back again is where it began, but for rounding.
    back = headrace.with_settings(headrace.with_settings(SHOP, ["redo=16G"]), ["redo=1G"]).database
    assert back["writes"]["flush_per_tx"] == pytest.approx(SHOP.database["writes"]["flush_per_tx"], rel=1e-12)


@pytest.mark.parametrize(
    ("workload", "settings", "value", "rule"),
    [
        (SHOP, ["innodb_io_capacty=1"], "innodb_io_capacty", "not a setting of innodb whose effect the model knows"),
        (SHOP, ["innodb_flush_method=O_DIRECT"], "innodb_flush_method", "whose effect the model knows"),
        (SHOP, ["rocksdb_flush_log_at_trx_commit=1"], "rocksdb_flush", "not a setting of innodb"),
        (ROCKS, ["innodb_doublewrite=ON"], "innodb_doublewrite", "not a setting of myrocks"),
        (SHOP, ["innodb_io_capacity"], "innodb_io_capacity", "must be NAME=VALUE"),
        (SHOP, ["innodb_io_capacity=fast"], "innodb_io_capacity=fast", "such as 2000 (pages a second)"),
        (SHOP, ["innodb_doublewrite=DETECT"], "DETECT", "such as ON or OFF"),
        (SHOP, ["sync_binlog=1", "sync_binlog=0"], "sync_binlog=0", "was given before"),
        (SHOP, ["innodb_flush_log_at_trx_commit=7"], "7", "must be a whole number 0 to 3"),
        (SHOP, ["innodb_flush_log_at_trx_commit=300"], "300", "must be a whole number 0 to 3"),
        (ROCKS, ["rocksdb_flush_log_at_trx_commit=3"], "3", "must be a whole number 0 to 2"),
        (MYSQL, ["innodb_flush_log_at_trx_commit=3"], "3", "MySQL takes 0, 1 or 2"),
        (SHOP, ["sync_binlog=99999999999"], "sync_binlog = 99999999999", "must be a whole number 0 to 4,294,967,295"),
        (SHOP, ["io_capacity=2000", "io_capacity_max=1000"], "1000", "cannot be below innodb_io_capacity = 2000"),
        (SHOP, "sync_binlog=1", "sync_binlog", "must be a list of NAME=VALUE"),
        (
            headrace.sysbench_tpcc(warehouses=10, cache_gib=1, threads=4),
            ["innodb_redo_log_capacity=8G"],
            "innodb_redo_log_capacity",
            "redo log that this workload was measured with is not known",
        ),
    ],
)
def test_what_is_not_known_is_refused_by_name(workload, settings, value, rule):
    with pytest.raises(InputError) as refused:
        headrace.with_settings(workload, settings)
    assert value in refused.value.value and rule in refused.value.rule


def test_a_refusal_lists_what_is_known():
    with pytest.raises(InputError) as refused:
        headrace.with_settings(SHOP, ["thread_pool_size=8"])
    names = [setting.name for setting in SETTINGS if setting.engine in (None, "innodb")]
    assert refused.value.hint and all(name in refused.value.hint for name in names)


def test_predict_and_plan_take_them(call):
    shop = "sysbench:script=oltp_read_write,tables=8,table_size=5000000,cache_gib=4,threads=8"
    words = ("predict", shop, "--storage", "gp3:500", "--start", "warm", "--seconds", "60", "--output", "json")

    def mib_s(*more: str) -> float:
        code, out, err = call(*words, *more)
        assert code == 0, err

        return json.loads(out)["summary"]["mib_s"]

    # Without the doublewrite area every page is written once.
    assert mib_s("--set", "innodb_doublewrite=OFF") < mib_s()
    code, _, err = call("predict", shop, "--storage", "gp3:500", "--set", "innodb_flush_method=fsync")
    assert code == 2 and "innodb_flush_method" in err
    code, _, err = call("plan", "demo:hour", "--set", "sync_binlog=0")
    assert code == 2 and "demand in I/Os" in err
    code, _, err = call("plan", shop, "--goal", "tps>=10", "--replica-lag-s", "1", "--set", "sync_binlog=0")
    assert code == 2 and "plans of a replica" in err
