"""A fleet on a real Ray cluster of two nodes on this machine: the bytes of one process, also when workers and a node are
killed in the middle. Takes most of a minute and 700 MiB, so it runs where RAY=1 is set (`make soak`).
"""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import polars as pl
import pytest

from headrace.errors import CouldNotRun, HeadraceError
from headrace.operate.fleet import planning
from headrace.operate.fleet.answer import FleetSettings
from headrace.operate.fleet.inventory import FleetInventory
from headrace.operate.fleet.on_ray import answer_on_worker, make_ray_runner
from headrace.operate.fleet.planning import plan_fleet
from headrace.operate.fleet.points import write_points

VOLUMES = int(os.environ.get("RAY_VOLUMES", "120"))
SETTINGS = FleetSettings(fortnights=2)


@pytest.fixture(scope="module")
def cluster():
    """Two nodes of one processor each."""
    if os.environ.get("RAY") != "1":
        pytest.skip("a Ray cluster takes most of a minute: set RAY=1")
    cluster_utils = pytest.importorskip("ray.cluster_utils", reason="ray is not installed: pip install 'headrace[ray]'")
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    yield cluster
    cluster.shutdown()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory) -> tuple[FleetInventory, Path]:
    from seeded_fleet import seeded_fleet

    fleet = seeded_fleet(VOLUMES, seed=3)
    points = tmp_path_factory.mktemp("fleet") / "points.parquet"
    write_points(points, list(fleet.points.values()))
    return fleet.inventory, points


def planned(fleet, to: Path, runner=None, **more) -> bytes:
    inventory, points = fleet
    plan_fleet(inventory, points, SETTINGS, to, runner=runner, **more)
    return to.read_bytes()


def workers() -> list[int]:
    """Processes of this user's Ray workers that are answering a batch."""
    names = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes()
        except OSError:
            continue
        if words.startswith(b"ray::answer_on_worker"):
            names.append(int(place.name))
    return names


def test_the_bytes_of_one_process(cluster, fleet, tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "VOLUMES_AT_ONCE", 10)
    alone = planned(fleet, tmp_path / "alone.parquet")
    assert set(pl.read_parquet(tmp_path / "alone.parquet")["verdict"]) >= {"change", "keep"}
    assert planned(fleet, tmp_path / "ray.parquet", make_ray_runner(cluster.address)) == alone

    # Workers are killed while they answer, then a whole node.
    killed: list[int] = []
    done: list[float] = []

    def kill() -> None:
        while len(killed) < 2 and (not done or done[-1] < 0.7):
            for worker in workers()[:1]:
                os.kill(worker, signal.SIGKILL)
                killed.append(worker)
                time.sleep(0.3)
            time.sleep(0.01)

    extra = cluster.add_node(num_cpus=1)
    thread = threading.Thread(target=kill)
    thread.start()

    def progress(share: float) -> None:
        done.append(share)
        if share >= 0.5 and extra in cluster.worker_nodes:
            cluster.remove_node(extra, allow_graceful=False)

    runner = make_ray_runner(cluster.address)
    assert planned(fleet, tmp_path / "killed.parquet", runner, progress=progress) == alone
    thread.join()
    assert killed and done[-1] == 1.0 and extra not in cluster.worker_nodes


def test_what_a_worker_refuses_is_told(cluster, fleet, tmp_path):
    inventory, points = fleet
    gone = tmp_path / "points.parquet"
    gone.write_bytes(points.read_bytes())
    batches = list(planning.make_batches(inventory, planning.index_volumes(gone)))
    places = planning.index_volumes(gone)
    gone.unlink()
    with pytest.raises(HeadraceError, match="no such file"):
        list(make_ray_runner(cluster.address)(batches, gone, places, SETTINGS))


def test_no_cluster_and_no_ray_are_said(tmp_path):
    """Also where ray is not installed, which is said before."""
    for address, message in (
        ("127.0.0.1:1", "nothing listens|not installed"),
        ("127.0.0.1:x", "must be HOST:PORT|not installed"),
    ):
        with pytest.raises(HeadraceError, match=message):
            list(make_ray_runner(address)([[]], tmp_path / "points.parquet", {}, SETTINGS))
    with pytest.raises(HeadraceError, match="needs an address"):
        make_ray_runner(" ")
    with pytest.raises(CouldNotRun, match="and its driver 9.9"):
        answer_on_worker("9.9", [], "", {}, SETTINGS)
