"""The archive of a source's binary log in a target: pieces of its files, and their index.

    binlogs/TIMELINE/timeline.json                whose history it is, where it begins, how far it goes
    binlogs/TIMELINE/pruned.json                  where it begins since older files were deleted
    binlogs/TIMELINE/streaming                    the process that streams it now
    binlogs/TIMELINE/binlog.000007/live-0..0      a piece as it came, by its first byte; two streams
                                                  that cut otherwise meet at a name that is taken
    binlogs/TIMELINE/binlog.000007/joined-0..0-0..9   several of them in one, by first and last byte

A timeline is one server's history without a break: what would not join on to it begins another. A
piece is one line of sealed index (file, offset, GTIDs, times, SHA-256) and the bytes, packed and
encrypted where that was asked for; so both are there or neither. What the index of the timeline
says is there and cannot be read is damage, wherever it lies: also behind the last piece.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

from headrace.errors import InputError
from headrace.servers.backup import manifest as documents
from headrace.servers.backup.pipeline import Flow, cipher, packer, unpacker
from headrace.servers.backup.targets.target import DAMAGED, DOC, MISSING, BackupTarget
from headrace.servers.topology.gtid import GtidSet

FORMAT = "headrace-binlog/1"
TIMELINE = re.compile(r"[a-z0-9][a-z0-9-]{0,59}-(?P<number>[0-9]{1,4})", re.ASCII)
PIECE = re.compile(r"(?:live-(?P<at>[0-9]{20})|joined-(?P<begin>[0-9]{20})-(?P<end>[0-9]{20}))", re.ASCII)
INDEX, PRUNED, STREAMING = "timeline.json", "pruned.json", "streaming"
LENGTH_BYTES = 21  # the first line of a piece: how long its index is, 20 digits and a line feed
MOST_HEAD_BYTES = 64 << 20  # a guess: an entry takes some 150 bytes, a file some thousand of them
# How often a timeline is listed again because a stream joined pieces meanwhile. A guess: a stream
# joins a few times a minute, and a list is read in less.
MOST_LISTS = 5


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

    kind: str  # live or joined
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
    GTIDs of the source before it. `spare`: names of its other pieces, which nothing can read or
    which others have taken the place of."""

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
class ArchiveEnd:
    """How far a timeline goes, by its index: up to `offset` (bytes) of `file`, with `gtid`
    executed. All "" and 0 while nothing is stored."""

    file: str = ""
    offset: int = 0
    gtid: str = ""


@dataclass(frozen=True)
class Damage:
    """Where a timeline is not whole, in `words`. `file`: the binary log it is about, "" for all.
    `name`: what cannot be used, "" for what is missing. `harmless`: nothing is lost by it."""

    file: str
    words: str
    name: str = ""
    harmless: bool = False


@dataclass(frozen=True)
class Timeline:
    """A history in the archive: its files in order. `damages`: where it is not whole. `end`: how
    far its index says that it goes."""

    id: str
    flavor: str
    version: str
    source: str
    source_id: str
    files: tuple[ArchivedFile, ...]
    damages: tuple[Damage, ...]
    end: ArchiveEnd = ArchiveEnd()

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with it, in words."""
        return tuple(one.words for one in self.damages)

    @property
    def begins(self) -> GtidSet:
        """What had been executed before its first file."""
        return self.files[0].earlier

    @property
    def ends(self) -> GtidSet:
        """What has been executed at the end of what can be read."""
        return self.files[-1].later

    @property
    def reach(self) -> GtidSet:
        """What had been executed at its end, whether or not all of it can be read."""
        return as_position(self.ends.union(GtidSet.parse(self.end.gtid, self.flavor)))

    def damage_behind(self, base: GtidSet) -> tuple[Damage, ...]:
        """The damage that may hide transactions which `base` has not. What lies in a file before
        one that begins inside of `base` hides none."""
        inside = [number_of(file.name) for file in self.files if base.contains(file.earlier)]
        return tuple(
            one
            for one in self.damages
            if not one.harmless and (not inside or not one.file or number_of(one.file) >= max(inside))
        )


def stem_of(source: str, source_id: str) -> str:
    """The id of a server's timelines, without their number."""
    return f"{source.lower()[:20].replace('_', '-').strip('-.')}-{source_id[-36:]}".replace(".", "-")


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
    ends = f"-{piece.ends:020d}" if piece.kind == "joined" else ""
    return f"binlogs/{piece.timeline}/{piece.file}/{piece.kind}-{piece.offset:020d}{ends}"


def extent_of(name: str) -> tuple[int, int] | None:
    """From which byte of its file to which a piece goes, by its name; None for another file. The
    name of a live one does not say its end: it goes nowhere."""
    match = PIECE.fullmatch(name.rpartition("/")[2])
    if match is None:
        return None
    return (int(match["at"]), int(match["at"])) if match["at"] else (int(match["begin"]), int(match["end"]))


def write_piece(target: BackupTarget, piece: Piece, data: bytes, key: bytes | None) -> str:
    """Stores a piece; its name."""
    with Flow(packer(piece.packed) + cipher(key)) as flow:
        stored = flow.through(data)
    content = asdict(piece) | {"stored": hashlib.sha256(stored).hexdigest(), "encrypted": key is not None}
    head = documents.sealed({"format": FORMAT, **content}, key)
    name = piece_name(piece)
    with target.create(name, len(head) + len(stored) + LENGTH_BYTES) as writer:
        writer.write(f"{len(head):020d}\n".encode() + head)
        writer.write(stored)
    return name


def read_piece(target: BackupTarget, name: str, key: bytes | None) -> Piece:
    """The index of a piece, without its bytes. Raises InputError for a damaged one."""
    raw = bytearray()
    wanted = LENGTH_BYTES
    for part in target.read(name):
        raw += part
        if len(raw) >= LENGTH_BYTES and wanted == LENGTH_BYTES:
            if not re.fullmatch(rb"[0-9]{20}\n", raw[:LENGTH_BYTES]) or int(raw[:20]) > MOST_HEAD_BYTES:
                raise _damaged(target, name, "its first line is not a length")
            wanted += int(raw[:20])
        if len(raw) >= wanted > LENGTH_BYTES:
            break
    if len(raw) < wanted or wanted == LENGTH_BYTES:
        raise _damaged(target, name, "it is cut short")
    content = documents.opened(bytes(raw[LENGTH_BYTES:wanted]), f"{target.label}/{name}", key)
    if content.pop("format", None) != FORMAT:
        raise InputError(f"{target.label}/{name}", f"is not {FORMAT}", DOC, "Use the Headrace that wrote it.")
    content["entries"] = tuple(Entry(**one) for one in content["entries"])
    piece = Piece(**{one.name: content[one.name] for one in fields(Piece)})
    if piece_name(piece) != name:
        raise _damaged(target, name, f"it is {piece_name(piece)}, moved")
    return piece


def piece_bytes(target: BackupTarget, name: str, piece: Piece, key: bytes | None) -> Iterator[bytes]:
    """The bytes of the binary log in a piece, every checksum tested. Raises InputError."""
    try:
        data = _unpacked(target, name, piece, key)
    except InputError as error:
        if error.kind != MISSING:
            raise
        data = _from_joined(target, name, piece, key)
    for entry in piece.entries:
        start = entry.offset - piece.offset
        if hashlib.sha256(data[start : start + entry.length]).hexdigest() != entry.sha256:
            raise _damaged(target, name, f"the stretch at offset {entry.offset:,} is not as it was written")
    yield data


def _unpacked(target: BackupTarget, name: str, piece: Piece, key: bytes | None) -> bytes:
    """The bytes of a piece whose index was read; their own checksum is tested."""
    first = next(iter(target.read(name)), b"")[:LENGTH_BYTES]
    if not re.fullmatch(rb"[0-9]{20}\n", first):
        raise _damaged(target, name, "its first line is not a length")
    stages = cipher(key if piece.encrypted else None, back=True) + unpacker(piece.packed)
    stored = b"".join(target.read(name, int(first) + LENGTH_BYTES))
    if hashlib.sha256(stored).hexdigest() != piece.stored:
        raise _damaged(target, name, "its checksum is another")
    with Flow(stages) as flow:
        data = flow.through(stored)
    if len(data) != piece.length:
        raise _damaged(target, name, f"it has {len(data):,} bytes and should have {piece.length:,}")
    return data


def _from_joined(target: BackupTarget, name: str, piece: Piece, key: bytes | None) -> bytes:
    """The bytes of a piece that a stream has joined with others since it was listed."""
    for one in target.list(f"{name.rpartition('/')[0]}/"):
        extent = extent_of(one.name)
        if one.name == name or extent is None or not extent[0] <= piece.offset <= piece.ends <= extent[1]:
            continue
        joined = read_piece(target, one.name, key)
        start = piece.offset - joined.offset
        return _unpacked(target, one.name, joined, key)[start : start + piece.length]
    raise _damaged(target, name, "it was there, and is not any more")


def _damaged(target: BackupTarget, name: str, what: str) -> InputError:
    hint = "Copy the file back from another copy of the target. Without it what is behind it cannot be replayed."
    return InputError(f"{target.label}/{name}", f"is damaged: {what}", DOC, hint, kind=DAMAGED)


# --- whole timelines ------------------------------------------------------------------------------


def write_index(
    target: BackupTarget, timeline: str, about: dict[str, Any], end: ArchiveEnd, key: bytes | None, new: bool = False
) -> None:
    """Says whose history a timeline is, and how far it goes. `new`: it may not be there yet."""
    name, content = f"binlogs/{timeline}/{INDEX}", documents.sealed({**about, "end": asdict(end)}, key)
    (target.put_new if new else target.replace)(name, content)


def read_about(target: BackupTarget, timeline: str, key: bytes | None) -> dict[str, Any]:
    """Whose history a timeline is, for `write_index`. Raises InputError."""
    name = f"binlogs/{timeline}/{INDEX}"
    about = documents.opened(target.document(name), f"{target.label}/{name}", key)
    return {one: value for one, value in about.items() if one != "end"}


def write_pruned(target: BackupTarget, timeline: str, first: str, key: bytes | None) -> None:
    """Says that the files before `first` are not needed any more, before they are deleted."""
    target.replace(f"binlogs/{timeline}/{PRUNED}", documents.sealed({"begins": first}, key))


def read_end(target: BackupTarget, timeline: str, key: bytes | None) -> ArchiveEnd:
    """How far a timeline goes, by its index. Raises InputError."""
    name = f"binlogs/{timeline}/{INDEX}"
    return ArchiveEnd(**documents.opened(target.document(name), f"{target.label}/{name}", key)["end"])


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
    return timeline.rpartition("-")[0], number_of_timeline(timeline)


def number_of_timeline(timeline: str) -> int:
    """Its place among those of its server."""
    return int(timeline.rpartition("-")[2])


class _Joined(Exception):
    """A stream joined pieces between a list of them and a look at them."""


def _timeline(target: BackupTarget, name: str, names: list[str], key: bytes | None) -> Timeline:
    for left in reversed(range(MOST_LISTS)):
        try:
            return _listed(target, name, names, key, changing=left > 0)
        except _Joined:
            names = [one.name for one in target.list(f"binlogs/{name}/")]
    raise AssertionError("the last list is taken as it is")


def _listed(target: BackupTarget, name: str, names: list[str], key: bytes | None, changing: bool) -> Timeline:
    damages: list[Damage] = []
    index, about, end = f"binlogs/{name}/{INDEX}", {}, ArchiveEnd()
    try:
        about = documents.opened(target.document(index), index, key)
        end = ArchiveEnd(**about["end"])
    except InputError as error:
        damages.append(Damage("", f"{index} {error.rule}, so it is not known how far the archive goes", index))
    except (KeyError, TypeError):
        damages.append(Damage("", f"{index} was written by another version of Headrace", index))
    by_file: dict[str, list[str]] = {}
    for one in names:
        parts = one.split("/")
        if len(parts) == 4 and PIECE.fullmatch(parts[3]):
            by_file.setdefault(parts[2], []).append(one)
        elif parts[2:] not in ([INDEX], [PRUNED], [STREAMING]):
            damages.append(Damage("", f"{one} is not of Headrace", one, harmless=True))
    files: list[ArchivedFile] = []
    for file in sorted(by_file, key=number_of):
        joined = _file(target, file, by_file[file], key, damages, changing)
        if joined is not None:
            _join(files, joined, damages)
            files.append(joined)
    begins = about.get("begins", "")
    if f"binlogs/{name}/{PRUNED}" in names:
        begins = _pruned_to(target, name, key, damages) or begins
    _check_begin(files, begins, by_file.keys(), damages)
    _check_end(name, files, end, damages)
    told = {one: str(about.get(one, "")) for one in ("flavor", "version", "source", "source_id")}
    told["flavor"] = told["flavor"] or (files[0].pieces[0].flavor if files else "mysql")
    return Timeline(name, files=tuple(files), damages=tuple(damages), end=end, **told)


def _pruned_to(target: BackupTarget, timeline: str, key: bytes | None, damages: list[Damage]) -> str:
    """The first file that was kept; "" where it cannot be read."""
    name = f"binlogs/{timeline}/{PRUNED}"
    try:
        return str(documents.opened(target.document(name), name, key)["begins"])
    except InputError as error:
        damages.append(Damage("", f"{name} {error.rule}", name, harmless=True))
    except KeyError:
        damages.append(Damage("", f"{name} was written by another version of Headrace", name, harmless=True))
    return ""


def _check_begin(files: list[ArchivedFile], begins: str, there: Collection[str], damages: list[Damage]) -> None:
    """Notes where the first file is gone, which nobody has pruned."""
    if begins and files and begins not in there and number_of(files[0].name) > number_of(begins):
        words = f"all of {begins} is missing: the archive began there, and begins with {files[0].name} now"
        damages.append(Damage(begins, words))


def _check_end(timeline: str, files: list[ArchivedFile], end: ArchiveEnd, damages: list[Damage]) -> None:
    """Notes where the index says that more was stored than can be read."""
    if not end.file:
        return
    if not files:
        words = f"nothing of {timeline} can be read, and its index says that it goes to {end.gtid or end.file}"
        damages.append(Damage("", words))
        return
    last = files[-1]
    if (number_of(last.name), last.ends) >= (number_of(end.file), end.offset):
        return
    words = f"can be read up to offset {last.ends:,} of {last.name}"
    words += f", and its index says that it goes to {end.offset:,} of {end.file} ({_few_text(end.gtid)})"
    damages.append(Damage(end.file, f"{timeline} {words}"))


def number_of(file: str) -> tuple[str, int]:
    """The name of a binary log as its base and number, which order them."""
    base, _, number = file.rpartition(".")
    return base, int(number) if number.isdigit() else -1


def _file(
    target: BackupTarget, file: str, names: list[str], key: bytes | None, damages: list[Damage], changing: bool
) -> ArchivedFile | None:
    """The pieces of one file that join on to each other from its beginning; of several that begin
    at one place the longest that can be read."""
    at, pieces, used, unread = 0, [], [], []
    left = sorted(names, key=lambda one: extent_of(one) or (0, 0), reverse=True)  # the next ones are last
    while left:
        begin, _ = extent_of(left[-1]) or (0, 0)
        if begin > at:
            break
        here = [one for one in left if (extent_of(one) or (0, 0))[0] == begin]
        left = left[: -len(here)]
        if begin < at:  # others have taken their place
            continue
        for name in here:
            try:
                piece = read_piece(target, name, key)
            except InputError as error:
                if error.kind == MISSING and changing:
                    raise _Joined from None
                unread.append((at, name, error.rule))
                continue
            pieces.append(piece)
            used.append(name)
            at = piece.ends
            if piece.length:
                break
    for place, name, rule in unread:
        damages.append(Damage(file, f"{name} {rule}", name, harmless=place < at))
    if left:
        begin, _ = extent_of(left[-1]) or (0, 0)
        words = f"{left[-1]}: the bytes from {at:,} to {begin:,} of {file} are missing"
        damages.append(Damage(file, words, left[-1]))
    spare = tuple(sorted(set(names) - set(used)))
    return ArchivedFile(file, tuple(pieces), tuple(used), spare) if pieces else None


def _join(files: list[ArchivedFile], next_one: ArchivedFile, damages: list[Damage]) -> None:
    """Notes where a file does not join on to the one before it."""
    if not files:
        return
    last = files[-1]
    if not last.ended:
        words = f"{last.name} ends early in the archive, at offset {last.ends:,}, and {next_one.name} follows"
        damages.append(Damage(last.name, words))
    missing, extra = next_one.earlier.minus(last.later), last.later.minus(next_one.earlier)
    if not missing.is_empty:
        words = f"between {last.name} and {next_one.name} {missing.count():,} transactions are missing: {_few(missing)}"
        damages.append(Damage(last.name, words))
    elif not extra.is_empty:
        words = f"{next_one.name} is of another history: its source has not executed {_few(extra)} of {last.name}"
        damages.append(Damage(last.name, words))


def _few(gtids: GtidSet) -> str:
    return _few_text(str(gtids))


def _few_text(text: str) -> str:
    return text if len(text) <= 160 else f"{text[:157]}..."
