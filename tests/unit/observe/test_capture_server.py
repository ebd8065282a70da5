"""Figures that a capture makes of a server's variables and of performance_schema, and the command's
own rules.

The servers themselves are in tests/mysql.
"""

from __future__ import annotations

import os

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.main import main
from headrace.observe.live.profile import Latencies, Profile, summarize_latencies
from headrace.observe.live.record import _write_or_rescue
from headrace.observe.live.samples import Samples
from headrace.observe.settings import check_settings

GIB = 2**30
MARIADB = {
    "innodb_buffer_pool_size": str(4 * GIB), "innodb_io_capacity": "200", "innodb_io_capacity_max": "2000", "innodb_doublewrite": "ON",
    "innodb_flush_neighbors": "1", "innodb_log_file_size": str(2 * GIB), "innodb_page_size": "16384", "innodb_purge_threads": "4", "sync_binlog": "0",
    "log_bin": "OFF", "innodb_flush_log_at_trx_commit": "1", "innodb_max_dirty_pages_pct": "90.000000", "innodb_lru_scan_depth": "1536",
}  # fmt: skip
MYSQL = MARIADB | {
    "innodb_redo_log_capacity": str(8 * GIB), "innodb_log_files_in_group": "2", "innodb_doublewrite": "DETECT_ONLY", "innodb_io_capacity": "10000",
    "innodb_io_capacity_max": "20000", "log_bin": "ON", "sync_binlog": "1", "innodb_page_cleaners": "4", "innodb_buffer_pool_instances": "8",
}  # fmt: skip
ROCKS = {
    "rocksdb_block_cache_size": str(GIB), "rocksdb_flush_log_at_trx_commit": "2", "rocksdb_block_size": "16384", "rocksdb_max_total_wal_size": str(GIB),
    "rocksdb_default_cf_options": "write_buffer_size=256m;level0_file_num_compaction_trigger=6;compression=kLZ4Compression", "rocksdb_max_background_jobs": "8",
}  # fmt: skip


def profile(variables):
    return Profile("10.11", "mariadb", "db1", dict(variables))


def test_settings_of_a_run_description():
    settings = profile(MARIADB).make_settings("innodb")
    assert settings == check_settings(settings, "innodb")  # a description takes what we write
    assert (
        settings["redo_gib"],
        settings["doublewrite"],
        settings["binlog"],
        settings["io_capacity_max"],
        settings["max_dirty_percent"],
    ) == (
        2.0,
        True,
        False,
        2000,
        90.0,
    )
    mysql = profile(MYSQL).make_settings("innodb")
    # redo_log_capacity rules where it is there; DETECT_ONLY writes no copy of a page.
    assert (mysql["redo_gib"], mysql["doublewrite"], mysql["pool_instances"]) == (
        8.0,
        False,
        8,
    ) and mysql == check_settings(mysql, "innodb")
    old = profile({name: value for name, value in MYSQL.items() if name != "innodb_redo_log_capacity"}).make_settings(
        "innodb"
    )
    assert old["redo_gib"] == 4.0  # two files
    assert profile(MARIADB).get_cache_gib("innodb") == 4.0 and profile(MARIADB).engines == ("innodb",)


def test_settings_of_myrocks():
    both = profile(MARIADB | ROCKS)
    settings = both.make_settings("myrocks")
    assert (
        settings == check_settings(settings, "myrocks")
        and both.engines == ("innodb", "myrocks")
        and both.get_cache_gib("myrocks") == 1.0
    )
    assert (
        settings["memtable_mib"],
        settings["l0_trigger"],
        settings["flush_log_at_trx_commit"],
        settings["block_kib"],
        settings["wal_gib"],
    ) == (
        256.0,
        6,
        2,
        16.0,
        1.0,
    )
    assert "redo_gib" not in settings and "io_capacity" not in settings
    # RocksDB's own defaults, where the server says nothing of it.
    plain = profile(
        MARIADB | ROCKS | {"rocksdb_default_cf_options": "", "rocksdb_max_total_wal_size": "0"}
    ).make_settings("myrocks")
    assert (plain["memtable_mib"], plain["l0_trigger"]) == (64.0, 4) and "wal_gib" not in plain


@given(
    st.dictionaries(
        st.sampled_from(sorted({*MYSQL, *ROCKS} - {"innodb_buffer_pool_size"})),
        st.text(max_size=30) | st.integers(-(2**65), 2**65).map(str),
    )
)
def test_whatever_a_server_says_makes_a_description_that_is_taken(odd):
    for engine in ("innodb", "myrocks"):
        settings = profile(MARIADB | ROCKS | odd).make_settings(engine)
        assert check_settings(settings, engine) == settings


# --- performance_schema -------------------------------------------------------------------------------------------------------

# Edges of MySQL's latency buckets, ms: 10 us, 4.71 % wider each (10 ** (1 / 50)), closed above.
EDGES = [0.01 * 10 ** (step / 50) for step in range(450)]


def histogram(times_ms):
    counts = dict.fromkeys(range(450), 0)
    for time in times_ms:
        counts[next(index for index, edge in enumerate(EDGES) if time <= edge)] += 1
    return [(EDGES[index], float(count)) for index, count in counts.items()]


def test_percentiles_are_of_what_came_between():
    before = Latencies(statements=histogram([1_000.0] * 5_000), transactions=(10.0, 1_000.0))
    later = [
        (edge, count + more)
        for (edge, count), (_, more) in zip(before.statements, histogram([0.5] * 900 + [8.0] * 100), strict=True)
    ]
    result = summarize_latencies(before, Latencies(statements=later, transactions=(110.0, 3_000.0)))
    assert result["transactions"] == 100 and result["transaction_mean_ms"] == 20.0 and result["statements"] == 1_000
    # The upper end of the bucket: at most 4.72 % above the time.
    assert 0.5 <= result["statement_p50_ms"] <= 0.5 * 1.0472 and 8.0 <= result["statement_p95_ms"] <= 8.0 * 1.0472
    assert result["statement_p50_ms"] == pytest.approx(0.5, rel=0.0472) and "statement_p99.9_ms" in result


def test_what_is_not_known_is_left_out():
    few = histogram([1.0] * 100)
    assert (
        summarize_latencies(Latencies(), Latencies())
        == {}
        == summarize_latencies(Latencies(statements=[(edge, 0.0) for edge, _ in few]), Latencies(statements=few))
    )
    # The server was started again: counters went back.
    assert (
        summarize_latencies(
            Latencies(transactions=(10.0, 5.0), statements=histogram([1.0] * 900)),
            Latencies(transactions=(1.0, 1.0), statements=histogram([1.0] * 300)),
        )
        == {}
    )


# --- the command --------------------------------------------------------------------------------------------------------------

LOCAL = "mysql://w@/?socket=/nonexistent/mysqld.sock"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([LOCAL], 2, "--storage is missing"),
        ([LOCAL, "--storage", "gp9:1"], 2, "not a volume type"),
        ([LOCAL, "--storage", "gp3:500", "--log-storage", "gp3:0"], 2, "log_storage"),
        ([LOCAL, "--storage", "gp3:500", "--device", "nosuchdisk"], 2, "not a block device"),
        ([LOCAL, "--storage", "gp3:500", "--seconds", "5"], 2, "10 s to 7 days"),
        ([LOCAL, "--storage", "gp3:500", "--seconds", "60", "--workload", "x.toml"], 2, "too short to calibrate"),
        ([LOCAL, "--storage", "gp3:500", "--workload", "/nonexistent/x.toml"], 2, "the folder does not exist"),
        ([LOCAL, "--storage", "gp3:500", "--as-of", "yesterday"], 2, "a day like"),
        ([LOCAL, "--storage", "gp3:500", "--instance", "m9.nothing"], 2, "instance"),
        ([LOCAL, "--storage", "gp3:500", "--engine", "aria"], 2, "engine"),
        (["mysql://w:hunter2@db/", "--storage", "gp3:500"], 2, "list of processes"),
        (["postgres://w@db/", "--storage", "gp3:500"], 2, "an address is"),
        ([LOCAL, "--storage", "gp3:500"], 3, "no such socket"),
        ([LOCAL, "--storage", "gp3:500", "--interval", "0.5"], 2, "whole seconds"),
        ([LOCAL, "--storage", "gp3:500", "--name", "x" * 201], 2, "printable"),
        ([LOCAL, "--storage", "gp3:500", "--defaults-file", "/nonexistent/my.cnf"], 2, "no such file"),
    ],
    ids=lambda value: None,
)
def test_the_command_says_what_is_wrong(words, code, message, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HEADRACE_MYSQL_PASSWORD", "hunter3")
    assert main(["workload", "capture", *words, "-o", str(tmp_path / "out")]) == code
    out, err = capsys.readouterr()
    assert message in err and out == "" and "Traceback" not in err and "hunter" not in err
    assert not (tmp_path / "out").exists()


def test_what_was_sampled_is_kept_where_the_folder_fails(tmp_path, monkeypatch):
    """A folder that turned into a file meanwhile stands for a disk that is full."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").write_text("")
    empty = pl.DataFrame({"t_unix": [1.0, 2.0], "questions": [1.0, 2.0]})
    place = _write_or_rescue(tmp_path / "out", {"caveats": []}, Samples(empty, pl.DataFrame(), pl.DataFrame()))
    assert place.parent == tmp_path / "elsewhere" and sorted(os.listdir(place)) == ["RUN.toml", "status.csv"]
    assert "cannot be written" in (place / "RUN.toml").read_text()
