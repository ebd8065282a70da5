"""Rate of each way of seeding, while the volumes' MiB/s bind: SEEDING_MIB=2048 for the whole; it is
skipped without. SEEDING_KINDS=copy,clone measures those alone.

An empty server is seeded before, so that starts, stops and connects are not counted as copying.
"""

from __future__ import annotations

import os
import time

import pytest
from followed import SMALL
from lab_servers import sql

from headrace import servers
from headrace.lab import Lab
from headrace.servers.topology.topology import Following, bring_up_replica

SIZE_MIB = int(os.environ.get("SEEDING_MIB", "0"))
FLAVORS = os.environ.get("FLAVORS", "mariadb").split(",")
KINDS = os.environ.get("SEEDING_KINDS", "mariabackup,copy,snapshot,clone").split(",")
SEEDS = {"mariadb": [kind for kind in KINDS if kind != "clone"], "mysql": [kind for kind in KINDS if kind == "clone"]}
# gp3 without more is 125 MiB/s and 3,000 IOPS, so copies of 1 MiB are bound by bytes.
STORAGE, CAP_MIB_S = "gp3:10", 125
TABLES, ROW = 4, 8_000  # bytes of a row: two of them fill a page of 16 KiB


@pytest.mark.skipif(not SIZE_MIB, reason="SEEDING_MIB=2048")
@pytest.mark.parametrize("flavor", FLAVORS)
def test_seeding_is_as_fast_as_the_volumes(labs, flavor):
    with labs.up(time_scale=1_000_000) as lab:
        servers.bring_up(lab, name="db", flavor=flavor, storage=STORAGE, settings=SMALL, unpaced=True)
        first = bring_up_replica(lab, "probe", "db", Following(prepare_source=True), unpaced=True)
        servers.destroy(first.server)
        empty = {seed: seconds(lab, seed) for seed in SEEDS[flavor]}
        fill(servers.find(lab, "db"))
        # At its next start its volume has its limits.
        servers.stop(servers.find(lab, "db"))
        source = servers.start(servers.find(lab, "db"))
        mib = used_mib(source)
        for seed in SEEDS[flavor]:
            took = seconds(lab, seed)
            rate = mib / max(took - empty[seed], 0.1)
            print(
                f"{flavor} {seed}: {mib:,} MiB in {took:.1f} s ({empty[seed]:.1f} s of an empty server): "
                f"{mib / took:.0f} MiB/s, copying alone {rate:.0f} MiB/s = {rate / CAP_MIB_S:.0%} of {CAP_MIB_S}"
            )


def seconds(lab: Lab, seed: str) -> float:
    began = time.monotonic()
    member = bring_up_replica(lab, "r", "db", Following(seed=seed))
    took = time.monotonic() - began
    assert member.state is not None and member.state.channels[0].receive == "on"
    servers.destroy(member.server)
    return took


def fill(source: servers.Server) -> None:
    sql(source, "CREATE DATABASE big", "SET GLOBAL innodb_flush_log_at_trx_commit = 2", "SET GLOBAL sync_binlog = 0")
    rows = SIZE_MIB * (1 << 20) // (TABLES * ROW)
    for number in range(TABLES):
        sql(
            source,
            "SET SESSION sql_log_bin = 0",
            f"CREATE TABLE big.t{number} (id INT PRIMARY KEY AUTO_INCREMENT, v VARBINARY({ROW}))",
            *[
                f"INSERT INTO big.t{number} (v) SELECT REPEAT(UNHEX(SHA2(CONCAT(UUID(), a.id), 512)), {ROW // 64})"
                f" FROM (SELECT 1 + x.n + 10 * y.n + 100 * z.n AS id FROM {DIGITS} x, {DIGITS} y, {DIGITS} z) a"
            ]
            * (rows // 1_000),
            timeout_s=300,
        )


DIGITS = f"({' UNION ALL '.join(f'SELECT {digit} AS n' for digit in range(10))})"


def used_mib(source: servers.Server) -> int:
    return sum(path.stat().st_size for path in source.paths.datadir.rglob("*") if path.is_file()) >> 20
