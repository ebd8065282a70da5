"""The old source on an instance of EC2, which the lab's endpoint serves: it is fenced by EC2's calls, and its
process, which nobody ends, answers no client any more; the rest of its binary log is read from its volume.

The lab's instance is this machine, which the lab does not stop: so it is the volume that is taken away. EC2_FENCING=1.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from lab_servers import sql
from test_switchovers import behind_and_dead
from under_load import FLAVORS, SCHEMA, Trio, app

sys.path.insert(0, str(Path(__file__).parents[2] / "api"))

from aws_labs import AwsLab

from headrace.errors import CouldNotRun, InputError
from headrace.mysql import connect
from headrace.servers.failover.cluster import make_cluster
from headrace.servers.failover.hosts import Ec2Host
from headrace.servers.failover.planning.members import FailoverWish


@pytest.fixture
def aws(shared_labs, monkeypatch):
    lab = AwsLab(shared_labs)
    for name, value in lab.environment.items():
        if name.startswith("AWS_"):
            monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    return lab


@pytest.mark.skipif(os.environ.get("EC2_FENCING") != "1", reason="EC2_FENCING=1")
def test_fenced_by_the_api(aws, tmp_path):
    trio = Trio(aws.lab, tmp_path)
    old = trio.server("a")
    with pytest.raises(InputError, match="is NAME=INSTANCE"):
        make_cluster(trio.names, aws.lab, tmp_path / "journal", [f"a={old.volumes.data}"])
    trio.cluster = lambda: make_cluster(
        trio.names, aws.lab, tmp_path / "journal", [f"a={aws.instance},{old.volumes.data}"]
    )
    host = trio.cluster().hosts["a"]
    assert isinstance(host, Ec2Host)
    # Without its volumes there is the instance alone, and that cannot be stopped here.
    with pytest.raises(CouldNotRun, match="could not be fenced: stop-instances i-.*does not stop it"):
        replace(host, volumes=()).fence()
    trio.load.start()
    with contextlib.closing(trio.cluster().make_executor(trio.clients, trio.say)) as executor:
        proof, until = None, time.monotonic() + 30
        while proof is None and time.monotonic() < until:
            _, proof = executor.observer.probe_source("a")
        # The volume of the old source answers no more, so that the source takes no writes: else
        # nobody may fail it over.
        aws.lab.fault(old.volumes.data or "", "pause", seconds=5)
        while executor.observer.probe_source("a")[0]["a"].write == "ok" and time.monotonic() < until:
            pass
        struck = time.monotonic()
        outcome = executor.run(FailoverWish("a"), proof=proof)
        assert outcome.lossless and outcome.elected
    new = trio.server(outcome.elected)
    trio.load.wait_for(new.port, struck)
    trio.load.stop()
    first = trio.load.first_on(new.port, struck)
    assert first is not None and not trio.load.missing(new)
    with (
        pytest.raises(Exception, match="."),
        connect(app(old.host, old.port or 0), 3.0) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(f"INSERT INTO {SCHEMA}.entries VALUES (98, 1, '')")
    assert not [note for note in trio.load.notes if note.port == old.port and note.at > first]
    attachments = aws.client("ec2").describe_volumes(VolumeIds=[old.volumes.data])["Volumes"][0]["Attachments"]
    assert not attachments or attachments[0]["State"] in ("detaching", "busy"), attachments


@pytest.mark.skipif(os.environ.get("EC2_FENCING") != "1", reason="EC2_FENCING=1")
@pytest.mark.parametrize("flavor", FLAVORS)
def test_the_tail_is_read_from_a_volume_of_ec2(aws, tmp_path, flavor):
    """Without semi-sync, and what the replicas had not received is on the volume alone."""
    trio = Trio(aws.lab, tmp_path, flavor, semi_sync=False)
    old = trio.server("a")
    mine = [f"a={aws.instance},{old.volumes.data}"]
    trio.cluster = lambda: make_cluster(trio.names, aws.lab, tmp_path / "journal", mine, aws.instance)
    with contextlib.closing(trio.cluster().make_executor(trio.clients, trio.say)) as executor:
        executor.observer.look()  # it sees that the source flushes its binary log
        behind_and_dead(trio, random.Random(1))
        with pytest.raises(CouldNotRun, match="acknowledged commits may be missing"):
            executor.run(FailoverWish("a"))
        outcome = executor.run(FailoverWish("a", rescue=True))
    assert outcome.rescued and outcome.lossless and outcome.elected
    new = trio.server(outcome.elected)
    assert not trio.load.missing(new), "an acknowledged commit was on the volume and is missing"
    assert not [entry for entry in mounted() if "headrace-rescue-" in entry]
    volume = aws.client("ec2").describe_volumes(VolumeIds=[old.volumes.data])["Volumes"][0]
    assert volume["State"] == "available", "it is left for whoever repairs the old source"
    print(f"{flavor}: {outcome.rescued} transactions from {old.volumes.data} in {outcome.seconds:.1f} s, 0 lost")
    assert sql(new, "SELECT @@global.read_only") == ((0,),)


def mounted() -> list[str]:
    return Path("/proc/mounts").read_text().splitlines()
