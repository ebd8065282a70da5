"""`headrace watch` and its moments with a real server: a restart while it is watched, servers that
tell little, and what it asks of them."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
from lab_folders import Command
from lab_servers import SPEC, sql

from headrace import servers
from headrace.mysql import parse_address
from headrace.operate.targets import SourceOptions
from headrace.operate.watching.opening import open_target


@pytest.fixture(scope="module")
def watched(lab):
    """A MariaDB whose performance_schema is on, and which these tests may restart."""
    server = servers.bring_up(lab, name="watched", storage=SPEC, settings={"performance_schema": "ON"})
    sql(server, "CREATE DATABASE IF NOT EXISTS w", "CREATE TABLE IF NOT EXISTS w.t (a INT PRIMARY KEY AUTO_INCREMENT)")
    return server


def options(lab) -> SourceOptions:
    return SourceOptions(lab=lambda: lab)


def busy(moment) -> bool:
    return moment.server is not None and (moment.server.tps or 0) > 0


@pytest.fixture(scope="module")
def watched_mysql(lab, mysql_program):
    """A MySQL, whose performance_schema is on by default."""
    server = servers.bring_up(lab, name="wmysql", flavor="mysql", storage=SPEC)
    sql(server, "CREATE DATABASE IF NOT EXISTS w", "CREATE TABLE IF NOT EXISTS w.t (a INT PRIMARY KEY AUTO_INCREMENT)")
    return server


@pytest.mark.parametrize("which", ["watched", "watched_mysql"])
def test_tps_and_one_statement_a_second(lab, which, request):
    """Statements of the watch are counted by the server itself. Both have performance_schema, whose
    tables of status lack the counters of statements."""
    watched = request.getfixturevalue(which)

    def count_questions() -> int:
        return int(dict(sql(watched, "SHOW GLOBAL STATUS LIKE 'Questions'"))["Questions"])

    with open_target(f"lab:{watched.name}-data", options(lab), past=False) as target:
        moments = target.moments
        # A rate needs two readings.
        rested = next(
            moment for moment in itertools.islice(moments, 20) if moment.server and moment.server.tps is not None
        )
        assert rested.server.tps < 1, "the watch counts its own statement"
        before, began = count_questions(), time.monotonic()
        for _ in range(60):
            sql(watched, "INSERT INTO w.t () VALUES ()")
        # Seconds that went by meanwhile come first, and have volumes only.
        result = list(itertools.islice(moments, 6))
        took, after = time.monotonic() - began, count_questions()
    # Ours: 60 inserts, each with the session's own statements, and this question.
    entry = count_questions()
    sql(watched, "INSERT INTO w.t () VALUES ()")
    each = count_questions() - entry - 1
    assert after - before - 60 * each <= took + 3
    assert any(busy(member) for member in result), "the inserts were not seen"
    last = result[-1].server
    assert last.up and last.checkpoint_age is not None and last.dirty is not None
    assert result[-1].volumes[0].name == f"{watched.name}-data"


def test_prepared_statements_are_transactions_too(lab, watched_mysql):
    """MySQL's performance_schema counts them as "Execute", whatever they do; autocommit sends no
    COMMIT."""
    times = 60
    with open_target(f"lab:{watched_mysql.name}-data", options(lab), past=False) as target:
        seen = itertools.islice(target.moments, 20)
        before = next(moment.server.totals for moment in seen if moment.server and moment.server.tps is not None)
        sql(watched_mysql, "PREPARE one FROM 'INSERT INTO w.t () VALUES ()'", *["EXECUTE one"] * times)
        totals = (moment.server.totals for moment in seen if moment.server)
        name = "headrace_transactions_total"
        assert any(total.get(name, 0.0) - before.get(name, 0.0) >= times - 0.5 for total in totals)


def test_a_restart_in_the_middle_is_a_gap_and_no_rate(lab, watched):
    with open_target("lab:watched-data", options(lab), past=False) as target:
        moments = target.moments
        before = [moment for moment in itertools.islice(moments, 3) if moment.server]
        assert before[-1].server.up
        servers.stop(watched)
        servers.bring_up(lab, name="watched")
        after = list(itertools.islice(moments, 12))
    assert after[-1].server.up, "it is watched again"
    rates = [
        moment.server.tps for moment in after if moment.server and moment.server.up and moment.server.tps is not None
    ]
    assert all(0 <= rate < 10_000 for rate in rates), "no counter that began over is a rate"
    totals = [moment.server.totals.get("headrace_transactions_total", 0.0) for moment in after if moment.server]
    assert totals == sorted(totals)


@pytest.mark.parametrize("grants", ["", "GRANT PROCESS ON *.* TO poor@localhost"])
def test_an_account_that_may_see_little(lab, watched, grants):
    sql(watched, "CREATE OR REPLACE USER poor@localhost IDENTIFIED BY 'pw1'", *([grants] if grants else []))
    address = parse_address(watched.make_address().label.replace("headrace@", "poor@"))
    from headrace.mysql import Secret

    poor = SourceOptions(lab=lambda: lab, read_address=lambda _: address.with_password(Secret("pw1")))
    with open_target(address.label, poor, past=False) as target:
        moments = list(itertools.islice(target.moments, 4))
    assert moments[-1].server.up and moments[-1].server.tps is not None
    assert any("GRANT SELECT ON performance_schema" in note for note in moments[-1].notes)


def test_the_password_is_not_in_the_process_list_nor_in_what_is_said(lab, watched, tmp_path):
    sql(
        watched,
        "CREATE OR REPLACE USER quiet@localhost IDENTIFIED BY 'very-hidden'",
        "GRANT PROCESS ON *.* TO quiet@localhost",
    )
    file = tmp_path / "client.cnf"
    file.write_text('[client]\npassword="very-hidden"\n')
    file.chmod(0o600)
    run = Command(lab.place.data_dir)
    label = watched.make_address().label.replace("headrace@", "quiet@")
    words = run.words("watch", label, "--defaults-file", str(file), "--output", "jsonl", "--seconds", "20")
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=run.environment)
    lines = [process.stdout.readline() for _ in range(3)]
    command_line = Path(f"/proc/{process.pid}/cmdline").read_text()
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "very-hidden" not in command_line + "".join(lines) + rest + errors
    assert json.loads(lines[2])["server"]["up"]
    stderr = run("watch", label.replace("quiet@", "quiet:very-hidden@"), "--once", code=2).stderr
    assert "very-hidden" not in stderr and "--defaults-file" in stderr or "password" in stderr


def test_performance_schema_off_is_said_and_waits_follow_from_the_disks(lab, server):
    """The shared server has MariaDB's default: off."""
    with open_target("lab:shared-data", options(lab), past=False) as target:
        moments = list(itertools.islice(target.moments, 4))
    assert any("performance_schema is off" in note for note in moments[-1].notes)
    assert moments[-1].server.up and "data files" not in moments[-1].server.waits
