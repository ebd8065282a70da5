"""kill -9 of `headrace replica up` at any moment leaves nothing behind that the next command does not remove, and a
source that can be written to.

SEEDINGS_KILLED=50 is the whole; without it, two.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time

from followed import new_source, same_data, until
from lab_folders import Command
from lab_servers import left_of, sql

from headrace import servers
from headrace.base import processes
from headrace.lab import Lab
from headrace.servers import access, volumes
from headrace.servers.record import find_data_dir, list_names, load, make_server_paths
from headrace.servers.topology.topology import Following, bring_up_replica

ROUNDS = int(os.environ.get("SEEDINGS_KILLED", "2"))
SEEDS = ("mariabackup", "snapshot", "binlog")


def seeds_left(lab: Lab, name: str) -> list[str]:
    return [
        snapshot["id"]
        for snapshot in lab.snapshots()["snapshots"]
        if (snapshot.get("tags") or {}).get(volumes.SEED_TAG) == name
    ]


def backups_running() -> list[str]:
    done = subprocess.run(["pgrep", "-af", "mariabackup.*headrace/mysql/.*/killed"], capture_output=True, text=True)
    return done.stdout.splitlines()


def test_nothing_is_left(labs):
    chance = random.Random(17)
    with labs.up(time_scale=1_000_000) as lab:
        source = new_source(lab, "db", "mariadb")
        # 24 MiB, so that copying takes a while.
        sql(source, "CREATE TABLE shop.big (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(8000))")
        sql(source, "INSERT INTO shop.big (v) SELECT REPEAT('x', 8000) FROM information_schema.columns LIMIT 1500")
        first = bring_up_replica(lab, "probe", "db", Following(prepare_source=True), unpaced=True)
        servers.destroy(first.server)
        command = Command(find_data_dir(lab))
        whole_s = {}
        for number in range(ROUNDS):
            seed = SEEDS[number % len(SEEDS)]
            words = command.words("replica", "up", "killed", "--of", "db", "--seed", seed, "--unpaced")
            if seed not in whole_s:
                began = time.monotonic()
                subprocess.run(words, env=command.environment, check=seed != "binlog", capture_output=True, timeout=120)
                whole_s[seed] = time.monotonic() - began
                servers.destroy(servers.find(lab, "killed"))
            child = subprocess.Popen(
                words, env=command.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            time.sleep(chance.uniform(0.2, 1.0) * whole_s[seed])
            child.send_signal(signal.SIGKILL)
            child.wait()
            until(lambda: not backups_running(), "mariabackup goes on without its starter")
            # No lock is left on the source.
            sql(servers.find(lab, "db"), f"INSERT INTO shop.t VALUES (-9, {number}, 'x')", timeout_s=20)
            if "killed" in list_names(find_data_dir(lab)):
                recording = load(make_server_paths(find_data_dir(lab), "killed"))
                if number % 2 or (recording is not None and recording.created):  # or it was killed when all was done
                    servers.destroy(servers.find(lab, "killed"))
                else:  # made again over what is left
                    member = bring_up_replica(lab, "killed", "db", Following(seed="snapshot"), unpaced=True)
                    same_data(servers.find(lab, "db"), member.server, databases=("shop",))
                    servers.destroy(member.server)
            assert left_of(lab, "killed") == [] and seeds_left(lab, "killed") == []
        assert processes.find_by_argument("killed", access.find_service_user()) is None
