"""A fleet past one machine: the batches of `planning`, answered by the workers of a Ray cluster.

A task is a batch: it reads its part of the points where it runs, and hands back the bytes of its
answers. Nothing is shared between tasks, so the bytes are those of one process, whichever worker
computes a batch, however often it is begun again, in whatever order batches come back. Headrace, of
the same version, must be installed on each node, and the points must lie at the same path there.
Needs the extra `headrace[ray]`.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.metadata import version as version_of
from pathlib import Path
from types import ModuleType

from headrace.errors import CouldNotRun, HeadraceError, Refusals
from headrace.operate.fleet.answer import FleetSettings
from headrace.operate.fleet.inventory import FleetDevice
from headrace.operate.fleet.planning import Runner, encode_answers

refuse = Refusals("docs/guide/fleet-changes.md")
# Tasks under way for each processor of the cluster: one runs, one is there when it ends. More would
# only hold memory.
IN_FLIGHT = 2
# Attempts to run a batch again after its worker died. Ray's own default is 3; spot instances are
# taken away many at a time.
RETRIES = 10
CONNECT_S = 10.0  # for a cluster in another network; ours
# A task has one processor: threads of its own would stand in each other's way.
ONE_THREAD = {"RAYON_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}


def make_ray_runner(address: str) -> Runner:
    """Returns a `runner` of `plan_fleet` on the Ray cluster at `address`: `auto`, `HOST:PORT` or
    `ray://HOST:PORT`. Raises InputError without an address."""
    if not address.strip():
        raise refuse.input("--ray", "needs an address", "For example auto, 10.0.0.1:6379 or ray://10.0.0.1:10001.")

    def run(
        batches: Sequence[list[FleetDevice]], points: Path, places: dict[str, tuple[int, int]], settings: FleetSettings
    ) -> Iterator[tuple[int, bytes]]:
        if not batches:
            return
        ray = _connect_ray(address)
        try:
            yield from _collect_answers(ray, batches, points.resolve(), places, settings)
        finally:
            ray.shutdown()

    return run


def _connect_ray(address: str) -> ModuleType:
    """Connects Ray to the cluster at an address. Raises CouldNotRun."""
    try:
        ray = import_module("ray")
    except ImportError:
        hint = "Install it: pip install 'headrace[ray]'."
        raise refuse.run("--ray", "needs Ray, which is not installed", hint) from None
    _check_listens(address)
    try:
        environment = {"env_vars": ONE_THREAD}
        ray.init(address=address, runtime_env=environment, log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # Ray has an error of its own for each way in which a cluster may be missing
        hint = "Start one with ray start --head, or leave --ray out: one machine needs none."
        reason = " ".join(str(error).split())[:160]
        raise CouldNotRun(f"--ray {address}", f"there is no cluster: {reason}", "Ray", hint) from None
    return ray


def _check_listens(address: str) -> None:
    """Checks that something listens: Ray itself waits a minute for a cluster that is not there.
    Raises CouldNotRun and InputError."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon:  # `auto` and the like
        return
    if not port.isdigit():
        raise refuse.input(f"--ray {address}", "must be HOST:PORT, ray://HOST:PORT or auto", "See ray status.")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()
    except (OSError, OverflowError) as error:
        hint = "Start a cluster with ray start --head, or leave --ray out: one machine needs none."
        raise CouldNotRun(f"--ray {address}", f"nothing listens there: {error}", "operating system", hint) from None


def _collect_answers(
    ray: ModuleType,
    batches: Sequence[list[FleetDevice]],
    points: Path,
    places: dict[str, tuple[int, int]],
    settings: FleetSettings,
) -> Iterator[tuple[int, bytes]]:
    """Yields the number of each batch and its answers (Parquet), as they come. Raises what a batch
    raises, and CouldNotRun for a cluster or worker that fails."""
    task = ray.remote(num_cpus=1, max_retries=RETRIES)(answer_on_worker)
    waiting = iter(enumerate(batches))
    under_way: dict[object, int] = {}
    while True:
        processors = int(ray.cluster_resources().get("CPU", 1))
        while len(under_way) < IN_FLIGHT * max(1, processors) and (numbered := next(waiting, None)):
            number, devices = numbered
            volumes = [member.id for device in devices for member in device.members]
            own = {volume: places[volume] for volume in volumes if volume in places}
            under_way[task.remote(version_of("headrace"), devices, str(points), own, settings)] = number
        if not under_way:
            return
        (done,), _ = ray.wait(list(under_way), num_returns=1)
        number = under_way.pop(done)
        try:
            yield number, ray.get(done)
        except ray.exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, HeadraceError):
                raise cause from None
            reason = " ".join(str(cause).split())[-200:]
            hint = "Install the same headrace on all nodes, with what it needs."
            raise CouldNotRun("a worker of the Ray cluster", f"failed: {reason}", "Ray", hint) from error
        except ray.exceptions.RayError as error:
            reason = " ".join(str(error).split())[:160]
            hint = "Run it again: what was answered is kept. See Ray's own log for why its workers end."
            raise CouldNotRun("the Ray cluster", f"lost a batch {RETRIES} times: {reason}", "Ray", hint) from None


def answer_on_worker(
    version: str, devices: list[FleetDevice], points: str, places: dict[str, tuple[int, int]], settings: FleetSettings
) -> bytes:
    """Returns the answers of a batch (Parquet), on a worker. Raises CouldNotRun if the worker has
    another version of Headrace than `version`."""
    if version != (own := version_of("headrace")):
        hint = "Install the same version on all nodes."
        raise refuse.run(f"a worker has headrace {own}", f"and its driver {version}", hint)
    return encode_answers(devices, Path(points), places, settings)
