"""A whole fleet, batch by batch: answers are saved, so that a run that was stopped can continue.

Batches are made of whole instances' devices in the order of the points' file, so that each part of
the file is read once. The answers of each batch lie in a folder next to the result until all are
there.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from io import BytesIO
from pathlib import Path

import msgspec
import polars as pl

from headrace import __version__
from headrace.base import core
from headrace.base.files import explain_unwritable, write_whole
from headrace.operate.fleet.answer import SCHEMA, FleetSettings, VolumeAnswer, build_answers_frame, make_answers
from headrace.operate.fleet.batch import answer_batch
from headrace.operate.fleet.inventory import FleetDevice, FleetInventory
from headrace.operate.fleet.points import VOLUMES_AT_ONCE, index_volumes, read_points, refuse

# While one batch is in the core, which leaves Python free, the next is read and asked about. More
# would only hold memory.
BATCHES_AT_ONCE = 2

# The files in the folder of kept answers: what they rest on, and a file a batch.
MARK, PARTS = "rests_on", "[0-9]*.parquet"

# Yields the number of each batch and its answers as Parquet, from the devices of the batches, the
# points' file, the rows of each volume in it (`index_volumes`), and the settings.
Runner = Callable[
    [Sequence[list[FleetDevice]], Path, dict[str, tuple[int, int]], FleetSettings], Iterable[tuple[int, bytes]]
]


def plan_fleet(
    inventory: FleetInventory,
    points: Path,
    settings: FleetSettings,
    to: Path,
    *,
    runner: Runner | None = None,
    progress: Callable[[float], None] = lambda share: None,
    note: Callable[[str], None] = lambda text: None,
    answered: Callable[[pl.DataFrame], None] | None = None,
) -> list[VolumeAnswer]:
    """Answers every device of the inventory and writes `to` (Parquet). A run that was stopped goes
    on where it was, if inventory, points and settings are the same. `note` is called with a text on
    volumes that have points and are not in the inventory; `answered` with the answers of each batch
    as soon as they are there, those of an earlier run first. Raises InputError or CouldNotRun."""
    settings = settings.validate()
    places = index_volumes(points)
    batches = list(make_batches(inventory, places))
    if not batches:
        raise refuse.input("the inventory", "names no volume", "Give what aws ec2 describe-volumes wrote.")
    foreign = _find_foreign_volumes(places, inventory)
    if foreign and len(foreign) == len(places):
        rule = f"none of its {len(places):,} volumes is in the inventory ({foreign[0]} is not)"
        raise refuse.input(str(points), rule, "Give points and inventory of the same accounts and regions.")
    if foreign:
        more = f" and {len(foreign) - 3:,} more" if len(foreign) > 3 else ""
        note(f"Points of volumes that are not in the inventory were left out: {', '.join(foreign[:3])}{more}.")
    parts = _get_parts_folder(to)
    _prepare_parts_folder(parts, _compute_digest(inventory, points, settings))
    open_batches = [number for number in range(len(batches)) if not _get_part_path(parts, number).exists()]
    if answered is not None:
        for number in sorted(set(range(len(batches))) - set(open_batches)):
            answered(pl.read_parquet(_get_part_path(parts, number)))
    run = runner or answer_in_process
    done = len(batches) - len(open_batches)
    progress(done / len(batches))
    for place, content in run([batches[number] for number in open_batches], points, places, settings):
        write_whole(_get_part_path(parts, open_batches[place]), content)
        if answered is not None:
            answered(pl.read_parquet(BytesIO(content)))
        done += 1
        progress(done / len(batches))
    frame = pl.concat([pl.read_parquet(_get_part_path(parts, number)) for number in range(len(batches))]).sort("key")
    write_whole(to, _encode_parquet(frame))
    _remove_parts(parts)
    return make_answers(frame)


def count_answered_batches(to: Path) -> int:
    """Returns how many batches a stopped run has answered; the same command continues."""
    return sum(1 for _ in _get_parts_folder(to).glob(PARTS))


def _find_foreign_volumes(places: dict[str, tuple[int, int]], inventory: FleetInventory) -> list[str]:
    """Returns the volumes with points that are not in the inventory, sorted."""
    return sorted(set(places) - {volume.id for volume in inventory.volumes})


def make_batches(inventory: FleetInventory, places: dict[str, tuple[int, int]]) -> Iterator[list[FleetDevice]]:
    """Yields devices in the order of the points, some hundred volumes at once; those without points
    last. Devices of one instance share its limits and lie in one batch."""
    nowhere = (1 << 62, 0)
    groups: dict[str, list[FleetDevice]] = {}
    for device in inventory.list_devices():
        groups.setdefault(device.members[0].instance_id or device.key, []).append(device)

    def compute_place(group: list[FleetDevice]) -> tuple:
        return (min(places.get(member.id, nowhere) for device in group for member in device.members), group[0].key)

    batch: list[FleetDevice] = []
    volumes = 0
    for group in sorted(groups.values(), key=compute_place):
        size = sum(len(device.members) for device in group)
        if batch and volumes + size > VOLUMES_AT_ONCE:
            yield batch
            batch, volumes = [], 0
        batch += group
        volumes += size
    if batch:
        yield batch


def answer_in_process(
    batches: Sequence[list[FleetDevice]], points: Path, places: dict[str, tuple[int, int]], settings: FleetSettings
) -> Iterator[tuple[int, bytes]]:
    """Answers the batches in this process, on all cores; yields the number of each and its
    Parquet, as they are done."""
    waiting = iter(enumerate(batches))
    with ThreadPoolExecutor(BATCHES_AT_ONCE) as pool:
        under_way: dict[Future[bytes], int] = {}
        while True:
            while len(under_way) < BATCHES_AT_ONCE and (numbered := next(waiting, None)):
                number, devices = numbered
                under_way[pool.submit(encode_answers, devices, points, places, settings)] = number
            if not under_way:
                return
            done, _ = wait(under_way, return_when=FIRST_COMPLETED)
            for future in done:
                yield under_way.pop(future), future.result()


def encode_answers(
    devices: list[FleetDevice], points: Path, places: dict[str, tuple[int, int]], settings: FleetSettings
) -> bytes:
    """Returns the answers of a batch as the bytes of a Parquet file, the same everywhere."""
    volumes = [member.id for device in devices for member in device.members]
    answers = answer_batch(devices, read_points(points, places, volumes), settings)
    return _encode_parquet(build_answers_frame(answers))


def _encode_parquet(frame: pl.DataFrame) -> bytes:
    """Returns the frame as the content of a Parquet file."""
    content = BytesIO()
    frame.write_parquet(content)
    return content.getvalue()


def _compute_digest(inventory: FleetInventory, points: Path, settings: FleetSettings) -> str:
    """Returns a digest of all that the answers follow from: version, inventory, settings,
    points."""
    status = points.stat()
    # Another version or catalog may answer otherwise, and other columns cannot stand below these.
    release = (__version__, core.newest_date(), list(SCHEMA))
    whole = msgspec.json.encode((release, inventory, settings, status.st_size, status.st_mtime_ns))
    return hashlib.sha256(whole).hexdigest()


def _prepare_parts_folder(parts: Path, digest: str) -> None:
    """Makes the folder of saved answers, and empties it where their digest is another. Raises
    InputError where it holds files that are not ours."""
    mark = parts / MARK
    with explain_unwritable(parts, "", "operating system"):
        if parts.is_dir() and not mark.exists() and set(parts.iterdir()) - set(_list_own_files(parts)):
            rule = "is where answers are kept until all are there, and holds files of something else"
            raise refuse.input(str(parts), rule, "Move it away, or give another --to.")
        if mark.exists() and mark.read_text() != digest:
            _remove_parts(parts)
        parts.mkdir(exist_ok=True)
        write_whole(mark, digest.encode())


def _remove_parts(parts: Path) -> None:
    """Deletes our files in the folder of saved answers, and the folder if it is then empty."""
    for file in (*_list_own_files(parts), parts / MARK):
        file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        parts.rmdir()


def _list_own_files(parts: Path) -> list[Path]:
    """Returns the files that we wrote there, with what a killed run left of a file
    (`base.files.write_whole`)."""
    return [file for pattern in (PARTS, f".{PARTS}.*", f".{MARK}.*") for file in parts.glob(pattern)]


def _get_parts_folder(to: Path) -> Path:
    return to.with_name(f"{to.name}.parts")


def _get_part_path(parts: Path, number: int) -> Path:
    return parts / f"{number:06d}.parquet"
