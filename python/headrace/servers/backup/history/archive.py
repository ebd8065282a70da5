"""The archive of a source's binary log in a target: pieces, whole files, and their index.

    binlogs/TIMELINE/timeline.json           whose history it is
    binlogs/TIMELINE/binlog.000007/live-0..0   pieces of the file that is being written
    binlogs/TIMELINE/binlog.000006/whole-0..0  a file that has ended, in few large pieces

A timeline is one server's history without a break: what would not join on to it begins another. A
piece is one line of sealed index (file, offset, GTIDs, times, SHA-256) and the bytes, packed and
encrypted where that was asked for; so both are there or neither.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from headrace.errors import InputError
from headrace.servers.backup import manifest as documents
from headrace.servers.backup.pipeline import Flow, cipher, packer, unpacker
from headrace.servers.backup.targets.target import DAMAGED, DOC, BackupTarget
from headrace.servers.topology.gtid import GtidSet

FORMAT = "headrace-binlog/1"
TIMELINE = re.compile(r"[a-z0-9][a-z0-9-]{0,59}-(?P<number>[0-9]{1,4})", re.ASCII)
PIECE = re.compile(r"(?P<kind>live|whole)-[0-9]{20}", re.ASCII)
MOST_HEAD_BYTES = 64 << 20  # a guess: an entry takes some 150 bytes, a file some thousand of them


@dataclass(frozen=True)
class Entry:
    """A stretch of a file in the index: its place, transactions and the times of the first and
    last, µs. Stretches end where transactions do."""

    offset: int
    length: int
    sha256: str
    transactions: int
    first_gtid: str
    last_gtid: str
    first_us: int
    last_us: int


@dataclass(frozen=True)
class Piece:
    """What lies in one file of the archive. `gtids`: its transactions, as JSON (see `set_json`);
    `earlier`: those before its file, "" in a piece that does not tell, or for none. `ended`:
    rotate, stop, crash, or "" while the file goes on."""

    kind: str  # live or whole
    timeline: str
    file: str
    offset: int
    length: int
    flavor: str
    gtids: list[Any]
    begins: bool
    earlier: str
    ended: str
    packed: str
    encrypted: bool
    stored: str  # SHA-256 of the bytes as they are stored
    entries: tuple[Entry, ...]

    @property
    def ends(self) -> int:
        return self.offset + self.length

    @property
    def set(self) -> GtidSet:
        """Its transactions."""
        return set_from(self.gtids, self.flavor)


@dataclass(frozen=True)
class ArchivedFile:
    """A binary log in the archive: `pieces` without a gap from its beginning. `earlier`: all
    GTIDs of the source before it. `spare`: names of pieces that others have taken the place of."""

    name: str
    pieces: tuple[Piece, ...]
    names: tuple[str, ...]
    spare: tuple[str, ...] = ()

    @property
    def earlier(self) -> GtidSet:
        return GtidSet.parse(self.pieces[0].earlier, self.pieces[0].flavor)

    @property
    def own(self) -> GtidSet:
        """Its transactions."""
        found = self.pieces[0].set
        for piece in self.pieces[1:]:
            found = found.union(piece.set)
        return found

    @property
    def later(self) -> GtidSet:
        """All GTIDs of the source up to its end."""
        return as_position(self.earlier.union(self.own))

    @property
    def ended(self) -> str:
        return self.pieces[-1].ended

    @property
    def ends(self) -> int:
        return self.pieces[-1].ends

    @property
    def entries(self) -> list[Entry]:
        return [entry for piece in self.pieces for entry in piece.entries]


@dataclass(frozen=True)
class Timeline:
    """A history in the archive: its files in order. `problems`: where it is broken."""

    id: str
    flavor: str
    version: str
    source: str
    source_id: str
    files: tuple[ArchivedFile, ...]
    problems: tuple[str, ...]

    @property
    def begins(self) -> GtidSet:
        """What had been executed before its first file."""
        return self.files[0].earlier

    @property
    def ends(self) -> GtidSet:
        """What has been executed at its end."""
        return self.files[-1].later


def as_position(gtids: GtidSet) -> GtidSet:
    """MariaDB's as it counts them: in a domain all up to the last one, used or not."""
    if gtids.flavor != "mariadb":
        return gtids
    return GtidSet(gtids.flavor, tuple((key, ((1, parts[-1][1]),)) for key, parts in gtids.ranges), gtids.writers)


def set_of(gtids: Iterable[str], flavor: str) -> GtidSet:
    """The set of these single GTIDs, in the order of the log."""
    numbers: dict[str, list[int]] = {}
    writers: dict[str, int] = {}
    for gtid in filter(None, gtids):
        key, number, writer = parts_of(gtid, flavor)
        numbers.setdefault(key, []).append(number)
        writers[key] = writer
    ranges = tuple((key, tuple(_ranges(found))) for key, found in sorted(numbers.items()))
    return GtidSet(flavor, ranges, tuple(sorted(writers.items())) if flavor == "mariadb" else ())


def parts_of(gtid: str, flavor: str) -> tuple[str, int, int]:
    """Server (and tag) or domain, number, and MariaDB's server."""
    if flavor == "mariadb":
        domain, server, number = gtid.split("-")
        return domain, int(number), int(server)
    key, _, number = gtid.rpartition(":")
    return key, int(number), 0


def _ranges(numbers: list[int]) -> Iterator[tuple[int, int]]:
    found = sorted(numbers)
    first = 0
    for index, number in enumerate(found):
        if index + 1 == len(found) or found[index + 1] > number + 1:
            yield found[first], number
            first = index + 1


def set_json(gtids: GtidSet) -> list[Any]:
    """A set as JSON: text has no form for a part of MariaDB's."""
    return [[[key, [list(one) for one in ranges]] for key, ranges in gtids.ranges], [list(w) for w in gtids.writers]]


def set_from(found: list[Any], flavor: str) -> GtidSet:
    """The set of `set_json`."""
    ranges = tuple((key, tuple((int(a), int(b)) for a, b in parts)) for key, parts in found[0])
    return GtidSet(flavor, ranges, tuple((key, int(writer)) for key, writer in found[1]))


def piece_name(piece: Piece) -> str:
    """Where a piece lies."""
    return f"binlogs/{piece.timeline}/{piece.file}/{piece.kind}-{piece.offset:020d}"


def write_piece(target: BackupTarget, piece: Piece, data: bytes, key: bytes | None) -> str:
    """Stores a piece; its name."""
    with Flow(packer(piece.packed) + cipher(key)) as flow:
        stored = flow.through(data)
    content = asdict(piece) | {"stored": hashlib.sha256(stored).hexdigest(), "encrypted": key is not None}
    head = documents.sealed({"format": FORMAT, **content}, key)
    name = piece_name(piece)
    with target.create(name, len(head) + len(stored) + 21) as writer:
        writer.write(f"{len(head):020d}\n".encode() + head)
        writer.write(stored)
    return name


def read_piece(target: BackupTarget, name: str, key: bytes | None) -> Piece:
    """The index of a piece, without its bytes. Raises InputError for a damaged one."""
    raw = bytearray()
    wanted = 21
    for part in target.read(name):
        raw += part
        if len(raw) >= 21 and wanted == 21:
            if not re.fullmatch(rb"[0-9]{20}\n", raw[:21]) or int(raw[:20]) > MOST_HEAD_BYTES:
                raise _damaged(target, name, "its first line is not a length")
            wanted += int(raw[:20])
        if len(raw) >= wanted > 21:
            break
    if len(raw) < wanted or wanted == 21:
        raise _damaged(target, name, "it is cut short")
    found = documents.opened(bytes(raw[21:wanted]), f"{target.label}/{name}", key)
    if found.pop("format", None) != FORMAT:
        raise InputError(f"{target.label}/{name}", f"is not {FORMAT}", DOC, "Use the Headrace that wrote it.")
    found["entries"] = tuple(Entry(**one) for one in found["entries"])
    piece = Piece(**{one.name: found[one.name] for one in fields(Piece)})
    if piece_name(piece) != name:
        raise _damaged(target, name, f"it is {piece_name(piece)}, moved")
    return piece


def piece_bytes(target: BackupTarget, name: str, piece: Piece, key: bytes | None) -> Iterator[bytes]:
    """The bytes of the binary log in a piece, every checksum tested. Raises InputError."""
    head = int(next(iter(target.read(name)))[:20]) + 21
    stages = cipher(key if piece.encrypted else None, back=True) + unpacker(piece.packed)
    counted = hashlib.sha256()
    stored = bytearray()
    for part in target.read(name, head):
        counted.update(part)
        stored += part
    if counted.hexdigest() != piece.stored:
        raise _damaged(target, name, "its checksum is another")
    with Flow(stages) as flow:
        data = flow.through(bytes(stored))
    if len(data) != piece.length:
        raise _damaged(target, name, f"it has {len(data):,} bytes and should have {piece.length:,}")
    for entry in piece.entries:
        start = entry.offset - piece.offset
        if hashlib.sha256(data[start : start + entry.length]).hexdigest() != entry.sha256:
            raise _damaged(target, name, f"the stretch at offset {entry.offset:,} is not as it was written")
    yield data


def _damaged(target: BackupTarget, name: str, what: str) -> InputError:
    hint = "What is behind it cannot be replayed. Take a new backup, or copy the file from another target."
    return InputError(f"{target.label}/{name}", f"is damaged: {what}", DOC, hint, kind=DAMAGED)


# --- whole timelines ------------------------------------------------------------------------------


def timelines(target: BackupTarget, key: bytes | None = None) -> list[Timeline]:
    """All histories in a target, with where they are broken."""
    names: dict[str, list[str]] = {}
    for one in target.list("binlogs/"):
        parts = one.name.split("/")
        if len(parts) >= 3 and TIMELINE.fullmatch(parts[1]):
            names.setdefault(parts[1], []).append(one.name)
    return [_timeline(target, name, names[name], key) for name in sorted(names, key=_order_of)]


def _order_of(timeline: str) -> tuple[str, int]:
    """By server, then by number: 10 comes behind 9."""
    stem, _, number = timeline.rpartition("-")
    return stem, int(number)


def _timeline(target: BackupTarget, name: str, names: list[str], key: bytes | None) -> Timeline:
    problems: list[str] = []
    about: dict[str, Any] = {}
    try:
        about = documents.opened(target.document(f"binlogs/{name}/timeline.json"), f"binlogs/{name}/timeline.json", key)
    except InputError as error:
        problems.append(f"binlogs/{name}/timeline.json: {error.rule}")
    by_file: dict[str, list[str]] = {}
    for one in names:
        parts = one.split("/")
        if len(parts) == 4 and PIECE.fullmatch(parts[3]):
            by_file.setdefault(parts[2], []).append(one)
        elif not one.endswith("/timeline.json"):
            problems.append(f"{one} is not of Headrace")
    files: list[ArchivedFile] = []
    for file in sorted(by_file, key=_number_of):
        joined = _file(target, file, by_file[file], key, problems)
        if joined is not None:
            _join(files, joined, problems)
            files.append(joined)
    told = {one: str(about.get(one, "")) for one in ("flavor", "version", "source", "source_id")}
    told["flavor"] = told["flavor"] or (files[0].pieces[0].flavor if files else "mysql")
    return Timeline(name, files=tuple(files), problems=tuple(problems), **told)


def _number_of(file: str) -> tuple[str, int]:
    base, _, number = file.rpartition(".")
    return base, int(number) if number.isdigit() else -1


def _file(
    target: BackupTarget, file: str, names: list[str], key: bytes | None, problems: list[str]
) -> ArchivedFile | None:
    """The pieces of one file that join on to each other from its beginning: the large ones where
    they reach its end, else the live ones."""
    told: list[str] = []
    whole = _joined(target, file, [one for one in names if "/whole-" in one], key, told)
    if whole is not None and whole.ended and not told:
        return replace(whole, spare=tuple(sorted(one for one in names if "/live-" in one)))
    # Damage is told whatever else there is; large pieces that only end early were not finished.
    problems += told
    live = _joined(target, file, [one for one in names if "/live-" in one], key, problems)
    if live is None and whole is not None:
        problems.append(f"{file} ends early in the archive, at {whole.ends:,}")
        return whole
    return live


def _joined(
    target: BackupTarget, file: str, names: list[str], key: bytes | None, problems: list[str]
) -> ArchivedFile | None:
    pieces: list[Piece] = []
    used: list[str] = []
    for name in sorted(names):
        try:
            piece = read_piece(target, name, key)
        except InputError as error:
            problems.append(f"{name} {error.rule}")
            break
        expected = pieces[-1].ends if pieces else 0
        if piece.offset != expected:
            problems.append(f"{name}: the bytes from {expected:,} to {piece.offset:,} of {file} are missing")
            break
        pieces.append(piece)
        used.append(name)
    return ArchivedFile(file, tuple(pieces), tuple(used)) if pieces else None


def _join(files: list[ArchivedFile], found: ArchivedFile, problems: list[str]) -> None:
    """Notes where a file does not join on to the one before it."""
    if not files:
        return
    last = files[-1]
    missing, extra = found.earlier.minus(last.later), last.later.minus(found.earlier)
    if not missing.is_empty:
        problems.append(
            f"between {last.name} and {found.name} {missing.count():,} transactions are missing: {_few(missing)}"
        )
    elif not extra.is_empty:
        problems.append(f"{found.name} is of another history: its source has not executed {_few(extra)} of {last.name}")


def _few(gtids: GtidSet) -> str:
    text = str(gtids)
    return text if len(text) <= 160 else f"{text[:157]}..."
