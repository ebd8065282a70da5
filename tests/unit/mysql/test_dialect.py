"""Statements of replication: what each flavor and version is told, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.errors import InputError
from headrace.mysql.address import Secret
from headrace.mysql.dialect import Dialect, SourceOf, check_filters, quote_literal
from headrace.mysql.gtid import GtidSet
from headrace.mysql.state import parse_dialect
from headrace.servers.topology import accounts

MARIADB, OLD, NEW = Dialect("mariadb", (10, 11, 19)), Dialect("mysql", (8, 0, 30)), Dialect("mysql", (9, 7, 4))
SOURCE = SourceOf("127.0.0.1", 3307, "repl", Secret("a'b\\c"), "/ca.pem")


def test_passwords_stay_in_the_statement():
    assert "a'b" not in repr(SOURCE)
    assert "MASTER_PASSWORD = 'a''b\\\\c'" in MARIADB.point_at(SOURCE)[-1]


def test_positions():
    at = SourceOf("h", 1, "u", Secret("p"), position=("binlog.000003", 157), channel="ch1", delay_s=60)
    # A channel keeps what is not named: the authority of the source before.
    for dialect, word in ((MARIADB, "MASTER"), (NEW, "SOURCE")):
        assert f"{word}_SSL_CA = ''" in dialect.point_at(replace(SOURCE, ssl_ca=None))[-1]
        assert "SSL_CA" not in dialect.point_at(replace(SOURCE, ssl_ca=None, keeps_ca=True))[-1]
    assert "MASTER_USE_GTID = slave_pos" in MARIADB.point_at(SOURCE)[-1]
    text = MARIADB.point_at(at)[-1]
    assert text.startswith("CHANGE MASTER 'ch1' TO MASTER_HOST = 'h'") and "MASTER_USE_GTID = no" in text
    assert "MASTER_LOG_FILE = 'binlog.000003', MASTER_LOG_POS = 157" in text and "MASTER_DELAY = 60" in text
    text = NEW.point_at(at)[-1]
    assert "SOURCE_AUTO_POSITION = 0" in text and text.endswith("FOR CHANNEL 'ch1'")
    for wrong in (("binlog.000003", 3), ("x'y", 4), ("", 4)):
        with pytest.raises(InputError):
            NEW.point_at(SourceOf("h", 1, "u", Secret("p"), position=wrong))


def test_authorities_of_ours_are_of_one_source():
    assert accounts.is_ours("/run/headrace/mysql/1/b/tls/source-a.pem")
    assert not accounts.is_ours("/etc/mysql/company-ca.pem") and not accounts.is_ours("")


def test_commits_are_flushed_where_a_sync_would_miss_them():
    flush = "FLUSH LOCAL ENGINE LOGS"
    assert MARIADB.flush_engines(1) == () and MARIADB.flush_engines(1, alone=True) == NEW.flush_engines(0) == (flush,)
    setting = "SET GLOBAL innodb_flush_log_at_trx_commit"
    assert MARIADB.flush_engines(0) == (f"{setting} = 1", flush, f"{setting} = 0")


def test_names_by_version():
    assert OLD.query_binary_log_position() == MARIADB.query_binary_log_position() == "SHOW MASTER STATUS"
    assert NEW.query_binary_log_position() == "SHOW BINARY LOG STATUS"
    gtids = GtidSet("mysql")
    assert [it.begin_at(gtids)[0] for it in (NEW, OLD)] == ["RESET BINARY LOGS AND GTIDS", "RESET MASTER"]
    assert Dialect("mysql", (8, 0, 25)).name_semi_sync_variable("source", "enabled") == "rpl_semi_sync_master_enabled"
    assert NEW.name_semi_sync_variable("source", "wait_count") == "rpl_semi_sync_source_wait_for_replica_count"
    assert NEW.stop_apply("x") == ("STOP REPLICA SQL_THREAD FOR CHANNEL 'x'",)
    assert MARIADB.stop_apply("x") == ("STOP SLAVE 'x' SQL_THREAD",)
    assert MARIADB.forget() == ("RESET SLAVE '' ALL",)


def test_a_set_that_is_no_position_is_no_beginning():
    here, there = GtidSet.parse("0-1-50", "mariadb"), GtidSet.parse("0-1-100", "mariadb")
    assert MARIADB.begin_at(there)[-1] == "SET GLOBAL gtid_slave_pos = '0-1-100'"
    with pytest.raises(InputError):
        MARIADB.begin_at(there.minus(here))


def test_semi_sync_waits_after_the_sync_and_not_after_the_commit():
    for dialect in (MARIADB, OLD, NEW):
        assert any(
            "wait_point = 'AFTER_SYNC'" in statement
            for statement in dialect.switch_semi_sync("source", True, 10_000, 1)
        )
        assert dialect.switch_semi_sync("source", True)[-1].endswith("enabled = 'ON'")


def test_a_source_of_semi_sync_waits_for_replicas_that_are_not_there_too():
    names = {
        MARIADB: "rpl_semi_sync_master_wait_no_slave",
        Dialect("mysql", (8, 0, 25)): "rpl_semi_sync_master_wait_no_slave",
        NEW: "rpl_semi_sync_source_wait_no_replica",
    }
    for dialect, name in names.items():
        assert f"SET GLOBAL {name} = 'ON'" in dialect.switch_semi_sync("source", True)
        assert dialect.make_semi_sync_settings("source", False).keys().isdisjoint({name})


@pytest.mark.parametrize("channel", ["a'b", "a b", "..", "x" * 65, "a\nb", "日本"])
def test_channels(channel):
    for dialect in (MARIADB, NEW):
        with pytest.raises(InputError):
            dialect.start(channel)


@pytest.mark.parametrize(
    "filters",
    [{"replicate-do-db": ("a'b",)}, {"replicate-do-db": ("a.b",)}, {"replicate-do-table": ("t",)}, {"do": ("x",)}]
    + [{"replicate-do-db": (value,)} for value in ("", "a,b", "a b", "a`b", "a\nb", "x" * 130)],
)
def test_filters_that_are_refused(filters):
    with pytest.raises(InputError):
        check_filters(filters)


def test_filters():
    both = {"replicate-do-db": ("shop", "logs"), "replicate-wild-ignore-table": ("shop.tmp%",)}
    assert "SET GLOBAL replicate_do_db = 'shop,logs'" in MARIADB.set_filters(both, "c")
    assert NEW.set_filters(both, "c") == (
        "CHANGE REPLICATION FILTER REPLICATE_DO_DB = (`shop`, `logs`) FOR CHANNEL 'c'",
        "CHANGE REPLICATION FILTER REPLICATE_WILD_IGNORE_TABLE = ('shop.tmp%') FOR CHANNEL 'c'",
    )


def test_versions():
    assert parse_dialect("10.11.19-MariaDB-0+deb12u1-log") == MARIADB
    assert parse_dialect("5.5.5-10.11.19-MariaDB") == MARIADB
    assert parse_dialect("9.7.4-2") == NEW
    for text in ("5.7.44-log", "8.0.21", "10.4.34-MariaDB", "", "nonsense"):
        with pytest.raises(InputError):
            parse_dialect(text)


def test_the_account_may_read_the_binary_log_and_nothing_else():
    for dialect in (MARIADB, NEW):
        statements = dialect.create_replication_account("repl", "127.0.0.1", Secret("p"))
        grants = [statement for statement in statements if statement.startswith("GRANT")]
        assert grants == ["GRANT REPLICATION SLAVE ON *.* TO 'repl'@'127.0.0.1'"]
        assert all("REQUIRE SSL" in statement for statement in statements if " USER " in statement)
        assert statements.index("SET SESSION sql_log_bin = 0") < 2 and statements[-1] == "SET SESSION sql_log_bin = 1"


def test_literals():
    assert quote_literal("o'\\n") == "'o''\\\\n'"
    with pytest.raises(InputError):
        quote_literal("a\nb")
