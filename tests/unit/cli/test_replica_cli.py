"""`headrace predict --replica` and `headrace plan --replica-lag-s` on the command line."""

from __future__ import annotations

import json

import pytest

from headrace.cli.main import main

WRITES = "sysbench:script=oltp_write_only,tables=4,table_size=100000,cache_gib=1,threads=8"
PREDICT = ["predict", WRITES, "--storage", "gp3:100:6000", "--seconds", "30", "--drain", "60"]


def ran(capsys, *arguments):
    code = main(list(arguments))
    output = capsys.readouterr()
    return code, output.out, output.err


def test_words_rows_and_charts(capsys, tmp_path):
    replica = ["--replica", "gp3:100", "--replica-version", "mariadb-10.11", "--replica-binlog"]
    code, out, _ = ran(capsys, *PREDICT, *replica, "--large", "5:2:3", "--report", str(tmp_path / "lag.html"))
    assert code == 0 and "Shares of the cost of a transaction" in out and "held back by" in out
    assert "after the load has stopped" in (tmp_path / "lag.html").read_text()
    code, out, _ = ran(capsys, *PREDICT, *replica, "--output", "csv")
    assert code == 0 and out.startswith("t_s,source_tps,applied_tps,possible_tps,backlog,lag_s,binding")
    code, out, _ = ran(
        capsys, *PREDICT, *replica, "--semi-sync", "0.5,80", "--acknowledgements", "2", "--output", "json"
    )
    document = json.loads(out)
    assert code == 0 and document["summary"]["semi_sync"]["added_ms"] >= 80 and "drawn" not in document["summary"]
    assert document["summary"]["semi_sync"]["in_turn"]
    after = ["--semi-sync", "0.5", "--wait-point", "after-commit", "--output", "json"]
    code, out, _ = ran(capsys, *PREDICT, *replica, *after)
    assert code == 0 and not json.loads(out)["summary"]["semi_sync"]["in_turn"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--workers", "4"], "give --replica"),
        (["--replica", "gp3:100", "--acknowledgements", "2"], "needs --semi-sync"),
        (["--replica", "gp3:100", "--wait-point", "after-sync"], "--wait-point: needs --semi-sync"),
        (["--replica", "gp3:100", "--semi-sync", "near"], "is not a number"),
        (["--replica", "gp3:100", "--large", "1:2"], "is written START"),
        (["--replica", "gp3:100", "--large", "0:nan:5"], "large 0:nan:5, length on the source = nan s: must be 0 to"),
        (["--replica", "gp3:100", "--large", "100000:5:5"], "begins at 100,000 s, when the load of 30 s has ended"),
        (["--replica", "gp3:100", "--sync-relay-log", "-1"], "--sync-relay-log -1: must be a whole number from 0"),
        (["--replica", "gp3:100", "--replica-sync-binlog", "-1"], "-1: must be a whole number from 0 to 4,294,967,295"),
        (["--replica", "gp3:100", "--replica-sync-binlog", "99999999999"], "from 0 to 4,294,967,295"),
        (["--replica", "gp3:100", "--replica-flush-log", "3"], "of mysql = 3: must be a whole number 0 to 2"),
        (["--replica", "gp3:100", "--replica-version", "mysql-8,4"], "'mysql-8,4': is not a version number"),
        (["--replica", "gp3:100", "--form", "events"], "is of a source alone"),
        (["--replica", "gp3"], "gp3"),
        (["--replica", "gp3:100", "--replica-mode", "minimal"], "is not a mode of mysql"),
    ],
)
def test_bad_options_are_usage_errors(capsys, given, says):
    code, out, err = ran(capsys, *PREDICT, *given)
    assert code == 2 and says in err and not out


def test_a_series_is_its_newest_release(capsys):
    code, out, err = ran(capsys, *PREDICT, "--replica", "gp3:100", "--replica-version", "mysql-8.0")
    assert code == 0 and "mysql-8.0, logical-clock, 4 workers" in out
    assert "mysql-8.0 without a patch number: the newest of that series is meant." in out + err


def test_demand_has_no_replica(capsys):
    code, _, err = ran(capsys, "simulate", "fio:rw=randread", "--storage", "gp3:100", "--replica", "gp3:100")
    assert code == 2 and "no such option: --replica" in err


def test_a_plan_ends_with_1_where_nothing_holds(capsys):
    plan = [
        "plan",
        WRITES,
        "--replica-lag-s",
        "1",
        "--compare",
        "gp3:100:6000",
        "--instances",
        "m6i.large",
        "--draws",
        "4",
    ]
    code, out, _ = ran(capsys, *plan, "--arrivals-tps", "300")
    assert code == 0 and "Cheapest: m6i.large/" in out
    code, out, _ = ran(
        capsys, *plan, "--arrivals-tps", "3000", "--replica-version", "mysql-5.6", "--replica-mode", "single"
    )
    assert code == 1 and "holds; the fastest applies" in out
    code, _, err = ran(capsys, *plan, "--goal", "tps>=5")
    assert code == 2 and "a replica is planned" in err
    code, _, err = ran(capsys, "plan", WRITES, "--replica-version", "mysql-9.7")
    assert code == 2 and "needs --replica-lag-s" in err
