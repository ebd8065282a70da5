"""Names of settings against real servers: what their `--verbose --help` listed, and how they took
settings that have come or gone (data/make_server_options.py)."""

from __future__ import annotations

import csv

import pytest
from advised import advised
from places import DATA, ROOT

from headrace.advice import parse_server, tune_settings
from headrace.advice.buffers import _read_buffers
from headrace.advice.current import _read_gone, find_gone
from headrace.advice.model import RISKS
from headrace.advice.reference import rewrite_page
from headrace.advice.rules import RULES
from headrace.advice.table import APPLIES_TO, GROUPS, KINDS, index_names, read_parameters, sources

PAGE = ROOT / "docs/reference/advice.md"
OPTIONS = list(csv.DictReader((DATA / "server_options.csv").open()))
SERVERS = [name for name in OPTIONS[0] if name != "option"]
# The binaries read came without the plugin.
WITHOUT_MYROCKS = ("mariadb-10.2.11", "mariadb-11.4.5")
# Still in the list of MariaDB, and without any effect or with a successor.
IDLE = {
    ("mariadb-10.5.23", "innodb_buffer_pool_instances"), ("mariadb-10.5.23", "innodb_page_cleaners"), ("mariadb-10.5.23", "innodb_log_files_in_group"),
    ("mariadb-11.4.5", "innodb_flush_method"), ("mariadb-11.8.6", "innodb_flush_method"), ("mariadb-10.11.19", "innodb_log_file_buffering"),
}  # fmt: skip
# The versions that were read, and others that are in use.
VERSIONS = {
    "mysql": [
        "5.7.22",
        "5.7.44",
        "8.0.11",
        "8.0.19",
        "8.0.25",
        "8.0.26",
        "8.0.27",
        "8.0.29",
        "8.0.30",
        "8.0.36",
        "8.1",
        "8.2",
        "8.3",
        "8.4",
        "8.4.3",
        "9.0",
        "9.7",
    ],
    "mariadb": [f"10.{minor}" for minor in range(2, 12)]
    + ["10.4.5", "10.5.0", "10.8.3", *(f"11.{minor}" for minor in range(9))],
    "percona": ["5.7.30", "8.0.36", "8.4"],
}
EVERY = [(flavor, version) for flavor, versions in VERSIONS.items() for version in versions]


def options_of(label: str) -> set[str]:
    return {row["option"] for row in OPTIONS if row[label]}


def split(label: str) -> tuple[str, str]:
    flavor, _, version = label.partition("-")
    return flavor, version


def every_advice(flavor: str, version: str):
    """All there is for a server: both engines, as source and replica, with folders."""
    for engine in ("innodb", "myrocks"):
        if engine == "myrocks" and (flavor == "mysql" or (flavor, version) == ("mariadb", "10.2.11")):
            continue
        for durability in ("full", "relaxed"):
            yield from advised(
                storage="gp3:500", memory_gib=16, flavor=flavor, version=version, engine=engine, replica=True, durability=durability,
                log_storage="gp3:50", log_dir="/log", tmp_dir="/scratch", vcpus=8, current={"log_bin": "ON"},
            )  # fmt: skip


@pytest.mark.parametrize("label", SERVERS)
def test_no_setting_a_real_server_does_not_list(label):
    flavor, version = split(label)
    listed = options_of(label)
    for item in every_advice(flavor, version):
        if item.group == "Host" or (item.parameter.startswith("rocksdb_") and label in WITHOUT_MYROCKS):
            continue
        # Semisynchronous replication is a plugin in MySQL, and only ever a comment.
        assert item.parameter in listed or not item.active and item.id == "rpl_semi_sync", item.parameter


@pytest.mark.parametrize("label", SERVERS)
def test_every_name_a_real_server_lists_is_advised_there(label):
    flavor, version = split(label)
    server, listed = parse_server(flavor, version), options_of(label)
    for parameter in read_parameters().values():
        name = parameter.find_name(server)
        others = {name.name for name in parameter.names if name.flavor == flavor} & listed
        if name is None:
            assert all((label, other) in IDLE for other in others), (
                f"{parameter.id}: {others} are there and not advised"
            )


@pytest.mark.parametrize(
    "row", list(csv.DictReader((DATA / "gone_settings.csv").open())), ids=lambda row: f"{row['server']}-{row['name']}"
)
def test_what_became_of_a_setting_is_what_the_server_did_with_it(row):
    texts = find_gone(row["name"], parse_server(*split(row["server"])))
    expected = "accepted" if texts is None or texts["then"] == "deprecated" else texts["then"]
    assert expected == row["taken"]


@pytest.mark.parametrize(("flavor", "version"), EVERY)
def test_every_version_gets_a_consistent_set(flavor, version):
    server = parse_server(flavor, version)
    for item in every_advice(flavor, version):
        assert item.risk in RISKS and item.why and item.source and item.value != ""
        became = find_gone(item.parameter, server)
        deprecated = became is not None and became["then"] == "deprecated"
        assert became is None or deprecated, f"{item.parameter} is advised and {became['then']}"
        # A setting that a release has deprecated is named, and never added.
        assert not (deprecated and item.active), item.parameter
    names = [item.parameter for item in advised(storage="gp3:500", memory_gib=16, flavor=flavor, version=version)]
    assert len(names) == len(set(names))
    redo = {"innodb_redo_log_capacity", "innodb_log_file_size"} & set(names)
    assert len(redo) == 1, "one size of the redo log, and only one"
    workers = {"slave_parallel_workers", "replica_parallel_workers", "slave_parallel_threads"} & set(names)
    assert len(workers) == 1


@pytest.mark.parametrize(("flavor", "version"), EVERY)
def test_tuned_settings_are_safe_and_complete_for_every_version(flavor, version):
    texts = tune_settings(storage="gp3:500", memory_gib=16, flavor=flavor, version=version)
    ids = {index_names()[name] for name in texts}
    assert {
        "innodb_buffer_pool_size",
        "innodb_flush_neighbors",
        "innodb_io_capacity",
        "innodb_doublewrite",
        "table_open_cache_instances",
    } <= ids
    assert "innodb_flush_method" in ids or "innodb_data_file_buffering" in ids
    assert not ids & {"log_bin", "relay_log", "tmpdir", "gtid_mode", "replica_parallel_workers"}
    assert texts["innodb_flush_log_at_trx_commit"] == "1"


def test_the_table_is_whole():
    for parameter in read_parameters().values():
        assert (
            parameter.group in GROUPS
            and parameter.kind in KINDS
            and parameter.applies_to in APPLIES_TO
            and parameter.engine in ("innodb", "myrocks", "both")
        )
        assert parameter.rule.endswith(".") or parameter.rule.endswith(")")
        assert set(parameter.source) <= set(sources()) and parameter.source
        assert parameter.id in RULES
        assert parameter.names or parameter.group == "Host"
        kind, _, reason = parameter.effect.partition(":")
        assert kind in ("simulated", "arithmetic") or (kind == "none" and reason.strip())
        for name in parameter.names:
            assert name.source in sources() and name.name == name.name.lower()
    assert set(RULES) == set(read_parameters())
    used = {key for parameter in read_parameters().values() for key in parameter.source}
    used |= {row["source"] for rows in _read_gone().values() for row in rows} | {
        row["source"] for row in _read_buffers()
    }
    assert used == set(sources()), "a source nobody cites, or the other way round"


def test_spans_of_versions_do_not_overlap():
    for parameter in read_parameters().values():
        for flavor, version in [*EVERY, *(split(label) for label in SERVERS)]:
            holding = [name for name in parameter.names if name.holds(parse_server(flavor, version))]
            assert len(holding) <= 1, f"{parameter.id} on {flavor} {version}: {holding}"


def test_the_reference_is_the_table():
    text = PAGE.read_text()
    assert rewrite_page(text) == text, "run: python -m headrace.advice.reference docs/reference/advice.md"


# Settings that the five documents treat, by the names they use.
TREATED = [
    "innodb_buffer_pool_size",
    "innodb_flush_method",
    "innodb_flush_neighbors",
    "innodb_log_file_size",
    "table_open_cache_instances",
    "sync_binlog",
    "innodb_flush_log_at_trx_commit",
    "sync_master_info",
    "sync_relay_log",
    "sync_relay_log_info",
    "innodb_doublewrite",
    "slave_parallel_type",
    "slave_parallel_workers",
    "binlog_format",
    "binlog_row_image",
    "log_bin",
    "relay_log",
    "gtid_mode",
    "performance_schema",
    "rocksdb_rate_limiter_bytes_per_sec",
    "rocksdb_block_cache_size",
]


def test_every_parameter_of_the_documents_is_treated():
    assert set(TREATED) <= set(index_names())
    text = PAGE.read_text()
    for name in TREATED:
        assert f"`{name}`" in text
