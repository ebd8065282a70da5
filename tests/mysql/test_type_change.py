"""The recipe of a type change under OLTP: MariaDB goes on while its volume becomes another one, by
EC2's calls.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest
from lab_servers import sql

sys.path.insert(0, str(Path(__file__).parents[1] / "api"))

from aws_labs import PACE, AwsLab, until

from headrace import servers
from headrace.bench import Store, SysbenchOltp, make_server_target, prepare, run

LOAD = SysbenchOltp(tables=2, rows=2_000)
# Length of the load, and the moment in it when the change is asked for, s: seconds that are printed
# before and after.
SECONDS, CHANGE_AT = 10, 3


@pytest.fixture
def aws_lab(labs) -> AwsLab:
    return AwsLab(labs)


def test_a_type_change_under_oltp(aws_lab, tmp_path):
    """gp2 to io2, larger: sysbench meets no error, transactions are committed before and after, and
    every table is whole.
    """
    lab, ec2 = aws_lab.lab, aws_lab.client("ec2")
    server = servers.bring_up(lab, name="db", storage="gp2:4", settings={"innodb_buffer_pool_size": "64M"})
    volume = server.volumes.data
    target = make_server_target(
        server.make_address("bench"),
        storage=server.storage,
        devices=server.volumes.devices,
        lab=lab.place,
        volumes=(volume,),
    )
    prepare(LOAD, target, threads=2)
    seen, due = [], threading.Event()

    def look(second) -> None:
        seen.append(second)
        if len(seen) == CHANGE_AT:
            due.set()

    done = {}
    load = threading.Thread(
        target=lambda: done.update(
            record=run(LOAD, target, seconds=SECONDS, threads=4, store=Store(tmp_path), on_second=look)
        )
    )
    load.start()
    try:
        assert due.wait(60)
        before = sql(server, "SHOW GLOBAL STATUS LIKE 'Com_commit'")[0][1]
        ec2.modify_volume(VolumeId=volume, VolumeType="io2", Iops=2000, Size=8)
        until(
            lambda: ec2.describe_volumes_modifications(VolumeIds=[volume])["VolumesModifications"][-1],
            lambda now: now["ModificationState"] == "completed",
            "the modification",
        )
        changed = len(seen)
    finally:
        load.join(120)
    ec2.get_waiter("volume_in_use").wait(VolumeIds=[volume], WaiterConfig=PACE)
    now = ec2.describe_volumes(VolumeIds=[volume])["Volumes"][0]
    assert (now["VolumeType"], now["Iops"], now["Size"]) == ("io2", 2000, 8)
    # A run with an error of the server or of sysbench is not complete.
    assert done["record"].state == "complete"
    assert 0 < changed < len(seen), "the change was made while the load went on"
    tps = done["record"].read_series()["tps"]
    assert tps[:CHANGE_AT].sum() > 0 and tps[changed:].sum() > 0
    assert int(sql(server, "SHOW GLOBAL STATUS LIKE 'Com_commit'")[0][1]) > int(before)
    checked = sql(server, "CHECK TABLE bench.sbtest1, bench.sbtest2")
    assert [row[3] for row in checked] == ["OK", "OK"]
