"""Crashes during OLTP: of the server, of the lab's daemon, of the machine's power. Afterwards every
commit that was acknowledged is there, and none in part.

The acknowledgements are kept by this process, outside of all that crashes. sysbench runs beside the
clients that keep count, so pages, redo and doublewrite are under way too. CRASHES=50 for the soak;
every crash is at another random moment, printed with its seed.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from datetime import datetime

import pytest
from lab_folders import kill
from lab_servers import sql

from headrace import servers as mysql
from headrace.base import processes
from headrace.lab import NoLab
from ledger import Ledger

CRASHES = int(os.environ.get("CRASHES", "1"))
# Durable settings by the manuals, for InnoDB with replication: nothing that was acknowledged may be
# lost ("innodb_flush_log_at_trx_commit", "sync_binlog").
DURABLE = {
    "innodb": {
        "innodb_flush_log_at_trx_commit": "1",
        "sync_binlog": "1",
        "log_bin": "ON",
        "innodb_buffer_pool_size": "32M",
    },
    "myrocks": {"rocksdb_flush_log_at_trx_commit": "1", "sync_binlog": "1", "log_bin": "ON"},
}
CUT_AFTER_S = 0.5


@contextlib.contextmanager
def sysbench(server):
    """oltp_write_only on a table of its own, larger than the buffer pool's share, until the server
    is gone or the block ends."""
    password = server.make_address().password.reveal()
    # In a --config-file: as an argument the password would stand in the list of processes.
    config = server.paths.state / "sysbench.conf"
    with open(os.open(config, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(
            f"mysql-user=headrace\nmysql-password={password}\nmysql-socket={server.paths.socket}\nmysql-db=sbtest\ntables=1\ntable-size=5000\nthreads=2\ntime=0\n"
        )
        file.write(f"mysql-storage-engine={'rocksdb' if server.engine == 'myrocks' else 'innodb'}\n")
    words = ["sysbench", f"--config-file={config}", "oltp_write_only"]
    if not sql(server, "SHOW DATABASES LIKE 'sbtest'"):
        sql(server, "CREATE DATABASE sbtest")
        subprocess.run([*words, "prepare"], check=True, capture_output=True, timeout=120)
    running = subprocess.Popen([*words, "run"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        running.kill()
        running.wait(30)


def crash_of_the_server(labs, lab, server, chance):
    os.kill(server.pid, signal.SIGKILL)
    assert processes.wait_gone(processes.look_up(server.pid) or processes.Process(0, 0, ""), 30)
    return lab, None


def crash_of_the_daemon(labs, lab, server, chance):
    lab.close()
    kill(lab.place.data_dir)
    with pytest.raises(NoLab):
        lab.volumes()
    problems = mysql.find(lab, server.name).problems
    assert any("the lab is down" in problem for problem in problems)
    return labs.up(lab.place.data_dir), None


def power_cut(labs, lab, server, chance):
    """Cuts the power of all volumes of the server at once, as of a machine. Acknowledgements after
    the first cut are not counted."""
    seeds = {volume: chance.randrange(2**63) for volume in (server.volumes.data, server.volumes.log) if volume}
    faults = [lab.fault(volume, "power-cut", in_s=CUT_AFTER_S, seed=seed) for volume, seed in seeds.items()]
    first = min(datetime.fromisoformat(fault["starts_at"]).timestamp() for fault in faults)
    time.sleep(max(0.0, first - time.time()) + 0.3)
    assert any("had its power cut" in problem for problem in mysql.find(lab, server.name).problems)
    return lab, first


ALL = (crash_of_the_server, crash_of_the_daemon, power_cut)
# With the logs on a volume of their own, and on that of the data. Errors of the devices are the same to
# a server in the second and third; the soak has all.
CASES = (
    ("mariadb", "innodb", "gp3:1", ALL),
    ("mariadb", "myrocks", None, ALL if CRASHES > 1 else (crash_of_the_daemon, power_cut)),
    ("mysql", "innodb", None, ALL if CRASHES > 1 else (crash_of_the_server, power_cut)),
)


@pytest.mark.parametrize(
    "flavor, engine, log_storage, crashes", CASES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_no_acknowledged_commit_is_lost(labs, request, flavor, engine, log_storage, crashes):
    if flavor == "mysql":
        request.getfixturevalue("mysql_program")
    seed = int(os.environ.get("SEED", "1"))
    chance = random.Random(f"{seed}/{flavor}/{engine}/{log_storage}")
    lab = labs.up()
    server = mysql.bring_up(
        lab, flavor=flavor, engine=engine, storage="gp3:3", log_storage=log_storage, settings=DURABLE[engine]
    )
    ledger = Ledger(server.make_address(), clients=6)
    ledger.create()
    for crash in crashes * CRASHES:
        moment = chance.uniform(0.3, 1.0)
        print(f"{crash.__name__} after {moment:.3f} s; SEED={seed} repeats it")
        before = ledger.acknowledged
        with sysbench(server):
            ledger.start()
            time.sleep(moment)
            lab, at = crash(labs, lab, server, chance)
        server = mysql.bring_up(lab)
        ledger.stop()
        loss = ledger.check(at)
        assert loss.acknowledged > before, "nothing was committed, so nothing was tested"
        assert (loss.lost, loss.torn) == (0, ()), f"{crash.__name__}: {loss}"
        assert server.state == "running" and not server.problems
        assert (
            sql(server, f"CHECK TABLE headrace_ledger.entries{', sbtest.sbtest1' if engine == 'innodb' else ''}")[0][3]
            == "OK"
        )
        ledger.go_on()
    mysql.destroy(server)
    assert lab.volumes() == []
    lab.close()


def test_relaxed_settings_lose_commits_when_the_power_goes(labs):
    """The other way round, so that the test above can fail: without flushes at commit, a power cut
    does lose what was acknowledged."""
    lab = labs.up()
    relaxed = DURABLE["innodb"] | {"innodb_flush_log_at_trx_commit": "0", "sync_binlog": "0"}
    server = mysql.bring_up(lab, storage="gp3:3", settings=relaxed)
    ledger = Ledger(server.make_address(), clients=6)
    ledger.create()
    lost = 0
    # The log is flushed once a second by itself: a cut right after that may lose nothing. Three in
    # a row right after it would be chance of (0.05 s)^3.
    for seed in range(3):
        ledger.start()
        lab.fault(server.volumes.data, "power-cut", in_s=1.7, seed=seed)
        time.sleep(2.2)
        server = mysql.bring_up(lab)
        ledger.stop()
        loss = ledger.check()
        assert loss.torn == ()
        lost += loss.lost
        if lost:
            break
        ledger.go_on()
    assert lost > 0
    lab.close()


def test_after_the_lab_was_down_it_comes_back(labs):
    """`lab down --force` under a running server, as a shutdown of the machine does it: no power
    cut, but no orderly end either."""
    from headrace.lab import stop_lab

    lab = labs.up()
    server = mysql.bring_up(lab, storage="gp3:3", log_storage="gp3:1", settings=DURABLE["innodb"])
    sql(server, "CREATE DATABASE kept", "CREATE TABLE kept.t (i INT PRIMARY KEY)", "INSERT INTO kept.t VALUES (1)")
    place = lab.place.data_dir
    stop_lab(lab, force=True)
    lab = labs.up(place)
    assert mysql.find(lab).problems
    server = mysql.bring_up(lab)
    assert sql(server, "SELECT i FROM kept.t") == ((1,),)
    assert not server.problems
    lab.close()
