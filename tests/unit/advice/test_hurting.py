"""Settings of today that a release has deprecated, that hurt the storage, or that take more memory than there is."""

from __future__ import annotations

import pytest
from advised import advised

import headrace
from headrace.advice import parse_server
from headrace.advice.buffers import compute_most_memory, compute_pool_room_gib, judge_memory
from headrace.advice.current import describe_since, find_gone
from headrace.base.units import GIB, MIB

MACHINE = {"storage": "gp3:500:6000", "memory_gib": 64, "vcpus": 8}


def advice(tmp_path, *lines: str, version: str = "8.0.36", flavor: str = "mysql"):
    path = tmp_path / "my.cnf"
    path.write_text("\n".join(["[mysqld]", *lines]) + "\n")
    return headrace.advise(**MACHINE, flavor=flavor, version=version, config=path)


def texts(result, name: str) -> list[str]:
    return [finding.text for finding in result.findings if name in finding.parameter]


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("binlog_transaction_dependency_tracking", "8.0.35"),
        ("expire_logs_days", "8.0.3"),
        ("master_info_repository", "8.0.23"),
        ("transaction_write_set_extraction", "8.0.26"),
    ],
)
def test_deprecated_settings_are_named_with_the_release(tmp_path, name, first):
    row = find_gone(name, parse_server("mysql", "8.0.36"))
    assert row["then"] == "deprecated" and describe_since(row) == f"since {first}"
    before = first.rpartition(".")[0] + f".{int(first.rpartition('.')[2]) - 1}"
    assert find_gone(name, parse_server("mysql", before)) is None
    assert find_gone(name, parse_server("mysql", "9.7"))["then"] == "refused"
    result = advice(tmp_path, f"{name} = 1")
    assert any(f"deprecated since {first}" in text for text in texts(result, name))
    # It stays in force, and nothing is lost: only what is refused or ignored becomes a comment.
    assert f"\n# {name}" not in result.to_diff() and "+# deprecated" not in result.to_diff()


def test_what_is_deprecated_is_not_added():
    item = next(
        entry for entry in advised(**MACHINE, flavor="mysql", version="8.0.36") if "dependency" in entry.parameter
    )
    assert item.value == "WRITESET" and not item.active and "Deprecated since 8.0.35" in item.why
    before = next(
        entry for entry in advised(**MACHINE, flavor="mysql", version="8.0.34") if "dependency" in entry.parameter
    )
    assert before.active
    # A value that is set already counts.
    current = {"binlog_transaction_dependency_tracking": "COMMIT_ORDER"}
    set_already = advised(**MACHINE, flavor="mysql", version="8.0.36", current=current)
    assert next(entry for entry in set_already if "dependency" in entry.parameter).active


@pytest.mark.parametrize(
    ("flavor", "version", "value", "lossy"),
    [
        ("mariadb", "10.11", "3", False),
        ("mariadb", "10.11", "2", True),
        ("mariadb", "10.11", "1", False),
        ("mysql", "8.0.36", "3", True),
    ],
)
def test_a_commit_that_three_syncs_of_mariadb_keep_is_not_lossy(tmp_path, flavor, version, value, lossy):
    name = "innodb_flush_log_at_trx_commit"
    result = advice(tmp_path, f"{name} = {value}", flavor=flavor, version=version)
    assert any("loses up to about a second" in text for text in texts(result, name)) == lossy


GREEDY = ("max_connections = 10000", "sort_buffer_size = 256M", "join_buffer_size = 1G")


def test_the_pool_does_not_grow_into_what_connections_may_take(tmp_path):
    result = advice(tmp_path, "innodb_buffer_pool_size = 128M", *GREEDY)
    pool = result["innodb_buffer_pool_size"]
    assert pool.value == "48G" and not pool.active and "10,000 connections x 1.25 GiB" in pool.why
    assert "innodb_buffer_pool_size" not in result.to_diff()
    [text] = texts(result, "max_connections")
    # 10,000 x (1 GiB + 256 MiB + 1 MiB + 256 KiB + 128 KiB + 32 KiB) = 12,514 GiB, and 24 MiB.
    assert "12,514 GiB" in text and "64 GiB" in text and "128 MiB of buffer pool" in text
    usual = advice(tmp_path, "innodb_buffer_pool_size = 128M", "max_connections = 500")
    assert usual["innodb_buffer_pool_size"].value == "48G" and usual["innodb_buffer_pool_size"].active
    assert not texts(usual, "max_connections")


def test_the_pool_leaves_room_for_moderate_buffers(tmp_path):
    """1,000 x 17.4 MiB are 17.0 GiB: of 64 GiB, 3.2 left for the rest, 43.7 remain."""
    result = advice(tmp_path, "innodb_buffer_pool_size = 128M", "max_connections = 1000", "sort_buffer_size = 16M")
    pool = result["innodb_buffer_pool_size"]
    assert pool.value == "43G" and pool.active and "1,000 connections" in pool.why
    # A pool that is there is not made smaller for a bound that is hardly ever reached.
    larger = advice(tmp_path, "innodb_buffer_pool_size = 46G", "max_connections = 1000", "sort_buffer_size = 16M")
    assert larger["innodb_buffer_pool_size"].value == "46G"


def test_the_sum_is_written_out():
    server = parse_server("mariadb", "10.11")
    most = compute_most_memory({"max_connections": "200", "sort_buffer_size": "4194304"}, server)
    # MariaDB's defaults: join 256K, read 128K, read_rnd 256K, binlog cache 32K, stack 292K.
    assert most.each_bytes == 4 * MIB + (256 + 128 + 256 + 32 + 292) * 1024
    assert most.server_bytes == (16 + 128 + 1 + 128) * MIB
    assert most.bytes == most.server_bytes + 200 * most.each_bytes
    assert compute_pool_room_gib(most, 16.0) == pytest.approx(16.0 - most.bytes / GIB - 0.8)
    assert judge_memory({}, server, 2.0) is None
    assert judge_memory({"innodb_buffer_pool_size": "2G"}, server, 2.0) is not None


@pytest.mark.parametrize(
    ("version", "lines", "name", "says"),
    [
        ("8.0.36", ("innodb_adaptive_flushing = OFF",), "innodb_adaptive_flushing", "bursts"),
        ("8.0.36", ("innodb_max_dirty_pages_pct = 5",), "innodb_max_dirty_pages_pct", "default is 90"),
        ("8.0.36", ("expire_logs_days = 0",), "expire_logs_days", "fill the volume"),
        ("8.4.3", ("binlog_expire_logs_seconds = 0",), "binlog_expire_logs_seconds", "fill the volume"),
        ("8.0.36", ("innodb_page_size = 4k",), "innodb_page_size", "4 KiB"),
        ("5.7.44", ("query_cache_type = ON", "query_cache_size = 64M"), "query_cache_type", "one lock"),
    ],
)
def test_settings_that_hurt_the_storage_are_told(tmp_path, version, lines, name, says):
    result = advice(tmp_path, *lines, version=version)
    assert any(says in text for text in texts(result, name)), result.findings


@pytest.mark.parametrize(
    ("version", "lines"),
    [
        ("8.0.36", ("innodb_adaptive_flushing = ON", "innodb_max_dirty_pages_pct = 90", "innodb_page_size = 16k")),
        ("8.0.36", ("binlog_expire_logs_seconds = 604800",)),
        ("8.0.36", ("skip_log_bin", "log_bin = OFF", "expire_logs_days = 0")),
        ("5.7.44", ("query_cache_type = OFF", "query_cache_size = 0")),
    ],
)
def test_settings_that_do_not_are_not(tmp_path, version, lines):
    result = advice(tmp_path, *lines, version=version)
    assert not [finding for finding in result.findings if "still takes it" not in finding.text]
