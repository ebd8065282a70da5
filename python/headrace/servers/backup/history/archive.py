"""The archive of a source's binary log in a target: pieces of its files, and their index.

    binlogs/TIMELINE/timeline.json                its server, where it begins, how far it goes
    binlogs/TIMELINE/pruned.json                  where it begins since older files were deleted
    binlogs/TIMELINE/streaming                    the process that streams it now
    binlogs/TIMELINE/binlog.000007/live-0..0      a piece as it was received, by its first byte; two
                                                  streams at once want the same name, and one fails
    binlogs/TIMELINE/binlog.000007/joined-0..0-0..9   several pieces in one, by first and last byte

A timeline is the history of a server without a gap: behind a gap another timeline begins. A piece
is one line of sealed index (file, offset, GTIDs, times, SHA-256) and the bytes, packed and
encrypted if that was asked for; so both exist or neither. Bytes that the index of the timeline
lists and that cannot be read are damage, also behind the last piece.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from headrace.errors import InputError
from headrace.mysql.gtid import GtidSet, merge_ranges
from headrace.servers.backup import manifest as documents
from headrace.servers.backup.targets.target import DAMAGED, MISSING, BackupTarget, refuse
from headrace.servers.copies.pipeline import Flow, make_cipher, make_packer, make_unpacker

FORMAT = "headrace-binlog/1"
TIMELINE = re.compile(r"[a-z0-9][a-z0-9-]{0,59}-(?P<number>[0-9]{1,4})", re.ASCII)
PIECE = re.compile(r"(?:live-(?P<at>[0-9]{20})|joined-(?P<begin>[0-9]{20})-(?P<end>[0-9]{20}))", re.ASCII)
INDEX, PRUNED, STREAMING = "timeline.json", "pruned.json", "streaming"
LENGTH_BYTES = 21  # the first line of a piece: how long its index is, 20 digits and a line feed
MOST_HEAD_BYTES = 64 << 20  # a guess: an entry takes some 150 bytes, a file some thousand of them
# Most times that a timeline is listed again because a stream joined pieces meanwhile. A guess: a
# stream joins a few times a minute, and a list is read in less.
MOST_LISTS = 5

# A set of GTIDs as JSON has it (`encode_set`): lists in lists, of ranges and of writers.
GtidJson = list[Any]


@dataclass(frozen=True)
class Entry:
    """A stretch of a binary log in the index. `offset`, `length`: its place, bytes. `transactions`:
    their number; `first_us`, `last_us`: when the first and the last were committed, µs, Unix; 0
    without transactions. Stretches end where transactions do."""

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
    """The index of one file of the archive. `offset`, `length`: its place in the binary log, bytes;
    `begins`: it has the first byte of that. `gtids`: its transactions, as JSON (see `encode_set`);
    `earlier`: those before its binary log, "" for none and where it does not begin there. `ended`:
    how the binary log ended (rotate, stop, crash), "" while it goes on."""

    kind: str  # live or joined
    timeline: str
    file: str
    offset: int
    length: int
    flavor: str
    gtids: GtidJson
    begins: bool
    earlier: str
    ended: str
    packed: str
    encrypted: bool
    stored: str  # SHA-256 of the bytes as they are stored
    entries: tuple[Entry, ...]

    @property
    def ends(self) -> int:
        """The position in the binary log, in bytes, behind the piece."""
        return self.offset + self.length

    @property
    def set(self) -> GtidSet:
        """The GTIDs of its transactions."""
        return decode_set(self.gtids, self.flavor)


@dataclass(frozen=True)
class ArchivedFile:
    """A binary log in the archive: `pieces` without a gap from its beginning, and their `names` in
    the target. `spare`: names of its other pieces, which are damaged or replaced by joined ones."""

    name: str
    pieces: tuple[Piece, ...]
    names: tuple[str, ...]
    spare: tuple[str, ...] = ()

    @property
    def earlier(self) -> GtidSet:
        """The GTIDs that its source had executed before it."""
        return GtidSet.parse(self.pieces[0].earlier, self.pieces[0].flavor)

    @property
    def own(self) -> GtidSet:
        """The GTIDs of its transactions."""
        gtids = self.pieces[0].set
        for piece in self.pieces[1:]:
            gtids = gtids.union(piece.set)
        return gtids

    @property
    def later(self) -> GtidSet:
        """The GTIDs that its source had executed at its end."""
        return as_position(self.earlier.union(self.own))

    @property
    def ended(self) -> str:
        """The end of the file, by its last piece: rotate, stop, crash, or "" while it goes on."""
        return self.pieces[-1].ended

    @property
    def ends(self) -> int:
        """The position behind the last byte that the archive has of it, in bytes."""
        return self.pieces[-1].ends

    @property
    def entries(self) -> list[Entry]:
        """The entries of all pieces, in order."""
        return [entry for piece in self.pieces for entry in piece.entries]


@dataclass(frozen=True)
class ArchiveEnd:
    """The end of a timeline by its index: at byte `offset` of the binary log `file`, with `gtid`
    executed. They are "" and 0 while nothing is stored."""

    file: str = ""
    offset: int = 0
    gtid: str = ""


@dataclass(frozen=True)
class Damage:
    """A damage of a timeline, in `words`. `file`: the damaged binary log, "" for the timeline's own
    documents. `name`: the file of the target that cannot be used, "" for a missing one. `harmless`:
    no transaction is lost."""

    file: str
    words: str
    name: str = ""
    harmless: bool = False


@dataclass(frozen=True)
class Timeline:
    """A history in the archive: its files in order, their `damages`, its `end` by its index."""

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
        """Damages of the timeline, in words."""
        return tuple(damage.words for damage in self.damages)

    @property
    def begins(self) -> GtidSet:
        """The GTIDs that had been executed before its first file."""
        return self.files[0].earlier

    @property
    def ends(self) -> GtidSet:
        """The GTIDs that had been executed at the end of its readable files."""
        return self.files[-1].later

    @property
    def reach(self) -> GtidSet:
        """The GTIDs that had been executed at its end, whether or not all of it can be read."""
        return as_position(self.ends.union(GtidSet.parse(self.end.gtid, self.flavor)))

    def list_damage_behind(self, base: GtidSet) -> tuple[Damage, ...]:
        """Returns the damage that may hide transactions which `base` lacks. Damage in a file before
        one that begins inside of `base` hides none."""
        inside = [split_name(file.name) for file in self.files if base.contains(file.earlier)]
        harmful = [damage for damage in self.damages if not damage.harmless]
        return tuple(each for each in harmful if not inside or not each.file or split_name(each.file) >= max(inside))


def make_stem(source: str, source_id: str) -> str:
    """Returns the beginning of the ids of a server's timelines, all but the number."""
    return f"{source.lower()[:20].replace('_', '-').strip('-.')}-{source_id[-36:]}".replace(".", "-")


def as_position(gtids: GtidSet) -> GtidSet:
    """Returns a set of MariaDB as a position, with all numbers up to the last; MySQL's as it is."""
    if gtids.flavor != "mariadb":
        return gtids
    return GtidSet(gtids.flavor, tuple((key, ((1, parts[-1][1]),)) for key, parts in gtids.ranges), gtids.writers)


def make_set(gtids: Iterable[str], flavor: str) -> GtidSet:
    """Returns the set of these GTIDs, in the order of the binary log; "" is skipped."""
    numbers: dict[str, list[int]] = {}
    writers: dict[str, int] = {}
    for gtid in filter(None, gtids):
        key, number, writer = split_gtid(gtid, flavor)
        numbers.setdefault(key, []).append(number)
        writers[key] = writer
    ranges = tuple((key, merge_ranges((each, each) for each in members)) for key, members in sorted(numbers.items()))
    return GtidSet(flavor, ranges, tuple(sorted(writers.items())) if flavor == "mariadb" else ())


def split_gtid(gtid: str, flavor: str) -> tuple[str, int, int]:
    """Splits a GTID into key (UUID and tag, or domain), number, and server_id (0 for MySQL)."""
    if flavor == "mariadb":
        domain, server, number = gtid.split("-")
        return domain, int(number), int(server)
    key, _, number = gtid.rpartition(":")
    return key, int(number), 0


def encode_set(gtids: GtidSet) -> GtidJson:
    """Returns a set as lists for JSON, since MariaDB has no text for a set with gaps."""
    return [[[key, [list(pair) for pair in ranges]] for key, ranges in gtids.ranges], [list(w) for w in gtids.writers]]


def decode_set(document: GtidJson, flavor: str) -> GtidSet:
    """Returns the set that `encode_set` has turned into lists."""
    ranges = tuple((key, tuple((int(a), int(b)) for a, b in parts)) for key, parts in document[0])
    return GtidSet(flavor, ranges, tuple((key, int(writer)) for key, writer in document[1]))


def make_piece_name(piece: Piece) -> str:
    """Returns the name of a piece in the target."""
    ends = f"-{piece.ends:020d}" if piece.kind == "joined" else ""
    return f"binlogs/{piece.timeline}/{piece.file}/{piece.kind}-{piece.offset:020d}{ends}"


def parse_extent(name: str) -> tuple[int, int] | None:
    """Returns the first byte of a piece in its file and the byte behind its last, by its name; None
    for another file. The name of a live piece does not say its end: first and end are equal."""
    match = PIECE.fullmatch(name.rpartition("/")[2])
    if match is None:
        return None
    return (int(match["at"]), int(match["at"])) if match["at"] else (int(match["begin"]), int(match["end"]))


def write_piece(target: BackupTarget, piece: Piece, data: bytes, key: bytes | None) -> str:
    """Stores a piece with its `data`, packed and encrypted, and returns its name in the target."""
    with Flow(make_packer(piece.packed) + make_cipher(key)) as flow:
        stored = flow.pass_through(data)
    content = asdict(piece) | {"stored": hashlib.sha256(stored).hexdigest(), "encrypted": key is not None}
    head = documents.seal_document({"format": FORMAT, **content}, key)
    name = make_piece_name(piece)
    with target.create(name, len(head) + len(stored) + LENGTH_BYTES) as writer:
        writer.write(f"{len(head):020d}\n".encode() + head)
        writer.write(stored)
    return name


def read_piece(target: BackupTarget, name: str, key: bytes | None) -> Piece:
    """Reads the index of a piece, without the bytes of the binary log. Raises InputError for a
    damaged piece, and for one of another format or name."""
    raw = bytearray()
    needed_bytes = LENGTH_BYTES
    for part in target.read(name):
        raw += part
        if len(raw) >= LENGTH_BYTES and needed_bytes == LENGTH_BYTES:
            if not re.fullmatch(rb"[0-9]{20}\n", raw[:LENGTH_BYTES]) or int(raw[:20]) > MOST_HEAD_BYTES:
                raise _make_damage_error(target, name, "its first line is not a length")
            needed_bytes += int(raw[:20])
        if len(raw) >= needed_bytes > LENGTH_BYTES:
            break
    if len(raw) < needed_bytes or needed_bytes == LENGTH_BYTES:
        raise _make_damage_error(target, name, "it is cut short")
    content = documents.open_document(bytes(raw[LENGTH_BYTES:needed_bytes]), f"{target.label}/{name}", key)
    if content.pop("format", None) != FORMAT:
        raise refuse.input(f"{target.label}/{name}", f"is not {FORMAT}", "Use the Headrace that wrote it.")
    piece = msgspec.convert(content, Piece)
    if make_piece_name(piece) != name:
        raise _make_damage_error(target, name, f"it is {make_piece_name(piece)}, moved")
    return piece


def read_piece_bytes(target: BackupTarget, name: str, piece: Piece, key: bytes | None) -> Iterator[bytes]:
    """Yields the bytes of the binary log in a piece. They are taken from a joined piece if the
    stream has replaced this one since. Raises InputError for a wrong checksum."""
    try:
        data = _unpack(target, name, piece, key)
    except InputError as error:
        if error.kind != MISSING:
            raise
        data = _read_from_joined(target, name, piece, key)
    for entry in piece.entries:
        start = entry.offset - piece.offset
        if hashlib.sha256(data[start : start + entry.length]).hexdigest() != entry.sha256:
            raise _make_damage_error(target, name, f"the stretch at offset {entry.offset:,} is not as it was written")
    yield data


def _unpack(target: BackupTarget, name: str, piece: Piece, key: bytes | None) -> bytes:
    """Returns the unpacked bytes of a piece. Raises InputError for a wrong checksum or size."""
    first = next(iter(target.read(name)), b"")[:LENGTH_BYTES]
    if not re.fullmatch(rb"[0-9]{20}\n", first):
        raise _make_damage_error(target, name, "its first line is not a length")
    stages = make_cipher(key if piece.encrypted else None, back=True) + make_unpacker(piece.packed)
    stored = b"".join(target.read(name, int(first) + LENGTH_BYTES))
    if hashlib.sha256(stored).hexdigest() != piece.stored:
        raise _make_damage_error(target, name, "its checksum is another")
    with Flow(stages) as flow:
        data = flow.pass_through(stored)
    if len(data) != piece.length:
        raise _make_damage_error(target, name, f"it has {len(data):,} bytes and should have {piece.length:,}")
    return data


def _read_from_joined(target: BackupTarget, name: str, piece: Piece, key: bytes | None) -> bytes:
    """Returns the bytes of a piece that a stream has joined with others since it was listed."""
    for file in target.list(f"{name.rpartition('/')[0]}/"):
        extent = parse_extent(file.name)
        if file.name == name or extent is None or not extent[0] <= piece.offset <= piece.ends <= extent[1]:
            continue
        joined = read_piece(target, file.name, key)
        start = piece.offset - joined.offset
        return _unpack(target, file.name, joined, key)[start : start + piece.length]
    raise _make_damage_error(target, name, "it was there, and is not any more")


def _make_damage_error(target: BackupTarget, name: str, what: str) -> InputError:
    """Returns the error for a damaged piece; `what` says what is wrong with it."""
    hint = "Copy the file back from another copy of the target. Without it what is behind it cannot be replayed."
    return refuse.input(f"{target.label}/{name}", f"is damaged: {what}", hint, kind=DAMAGED)


# --- whole timelines ------------------------------------------------------------------------------


def write_index(
    target: BackupTarget, timeline: str, about: dict[str, object], end: ArchiveEnd, key: bytes | None, new: bool = False
) -> None:
    """Writes the index of a timeline: the fields that describe its server (`about`), and its `end`.
    Raises InputError for an index that exists, if it should be `new`."""
    name, content = f"binlogs/{timeline}/{INDEX}", documents.seal_document({**about, "end": asdict(end)}, key)
    (target.put_new if new else target.replace)(name, content)


def read_description(target: BackupTarget, timeline: str, key: bytes | None) -> dict[str, object]:
    """Returns the fields of a timeline's index that describe its server, the `about` of
    `write_index`. Raises InputError."""
    name = f"binlogs/{timeline}/{INDEX}"
    about = documents.open_document(target.read_document(name), f"{target.label}/{name}", key)
    return {name: value for name, value in about.items() if name != "end"}


def read_end(target: BackupTarget, timeline: str, key: bytes | None) -> ArchiveEnd:
    """Returns the end of a timeline by its index. Raises InputError."""
    name = f"binlogs/{timeline}/{INDEX}"
    return ArchiveEnd(**documents.open_document(target.read_document(name), f"{target.label}/{name}", key)["end"])


def read_timelines(target: BackupTarget, key: bytes | None = None) -> list[Timeline]:
    """Reads all timelines of a target, ordered by server and number. Files that cannot be read
    become damages of their timeline."""
    names: dict[str, list[str]] = {}
    for file in target.list("binlogs/"):
        parts = file.name.split("/")
        if len(parts) >= 3 and TIMELINE.fullmatch(parts[1]):
            names.setdefault(parts[1], []).append(file.name)
    # By the server, then by the number, so that 10 comes behind 9.
    ordered = sorted(names, key=lambda name: (name.rpartition("-")[0], parse_timeline_number(name)))
    return [_load_timeline(target, name, names[name], key) for name in ordered]


def parse_timeline_number(timeline: str) -> int:
    """Returns the number of a timeline among those of its server."""
    return int(timeline.rpartition("-")[2])


class _Joined(Exception):
    """Raised when a stream joined pieces after they were listed and before they were read."""


def _load_timeline(target: BackupTarget, name: str, names: list[str], key: bytes | None) -> Timeline:
    """Reads a timeline from its files in the target (`names`); lists them again, up to MOST_LISTS
    times in all, if a stream joined pieces meanwhile."""
    for retries in reversed(range(MOST_LISTS)):
        try:
            return _read_timeline(target, name, names, key, changing=retries > 0)
        except _Joined:
            names = [file.name for file in target.list(f"binlogs/{name}/")]
    raise AssertionError("the last list is taken as it is")


def _read_timeline(target: BackupTarget, name: str, names: list[str], key: bytes | None, changing: bool) -> Timeline:
    """Reads index and pieces of a timeline from its files in the target (`names`); what cannot be
    read becomes a damage. `changing`: raises _Joined for a listed piece that is missing now."""
    damages: list[Damage] = []
    index, about, end = f"binlogs/{name}/{INDEX}", {}, ArchiveEnd()
    try:
        about = documents.open_document(target.read_document(index), index, key)
        end = ArchiveEnd(**about["end"])
    except InputError as error:
        damages.append(Damage("", f"{index} {error.rule}, so it is not known how far the archive goes", index))
    except (KeyError, TypeError):
        damages.append(Damage("", f"{index} was written by another version of Headrace", index))
    by_file: dict[str, list[str]] = {}
    for path in names:
        parts = path.split("/")
        if len(parts) == 4 and PIECE.fullmatch(parts[3]):
            by_file.setdefault(parts[2], []).append(path)
        elif parts[2:] not in ([INDEX], [PRUNED], [STREAMING]):
            damages.append(Damage("", f"{path} is not of Headrace", path, harmless=True))
    files: list[ArchivedFile] = []
    for file in sorted(by_file, key=split_name):
        archived = _read_file(target, file, by_file[file], key, damages, changing)
        if archived is not None:
            _check_continues(files, archived, damages)
            files.append(archived)
    begins = about.get("begins", "")
    if f"binlogs/{name}/{PRUNED}" in names:
        begins = _read_pruned(target, name, key, damages) or begins
    if begins and files and begins not in by_file and split_name(files[0].name) > split_name(begins):
        words = f"all of {begins} is missing: the archive began there, and begins with {files[0].name} now"
        damages.append(Damage(begins, words))
    _check_end(name, files, end, damages)
    origin = {name: str(about.get(name, "")) for name in ("flavor", "version", "source", "source_id")}
    origin["flavor"] = origin["flavor"] or (files[0].pieces[0].flavor if files else "mysql")
    return Timeline(name, files=tuple(files), damages=tuple(damages), end=end, **origin)


def _read_pruned(target: BackupTarget, timeline: str, key: bytes | None, damages: list[Damage]) -> str:
    """Returns the name of the first binary log that was not pruned, by the document PRUNED; "" if
    that cannot be read, which is added to `damages`."""
    name = f"binlogs/{timeline}/{PRUNED}"
    try:
        return str(documents.open_document(target.read_document(name), name, key)["begins"])
    except InputError as error:
        damages.append(Damage("", f"{name} {error.rule}", name, harmless=True))
    except KeyError:
        damages.append(Damage("", f"{name} was written by another version of Headrace", name, harmless=True))
    return ""


def _check_end(timeline: str, files: list[ArchivedFile], end: ArchiveEnd, damages: list[Damage]) -> None:
    """Adds to `damages` if the index says that more was stored than can be read."""
    if not end.file:
        return
    if not files:
        words = f"nothing of {timeline} can be read, and its index says that it goes to {end.gtid or end.file}"
        damages.append(Damage("", words))
        return
    last = files[-1]
    if (split_name(last.name), last.ends) >= (split_name(end.file), end.offset):
        return
    words = f"can be read up to offset {last.ends:,} of {last.name}"
    words += f", and its index says that it goes to {end.offset:,} of {end.file} ({shorten_set(end.gtid)})"
    damages.append(Damage(end.file, f"{timeline} {words}"))


def split_name(file: str) -> tuple[str, int]:
    """Splits the name of a binary log into base and number (-1 for none), which order them."""
    base, _, number = file.rpartition(".")
    return base, int(number) if number.isdigit() else -1


def _read_file(
    target: BackupTarget, file: str, names: list[str], key: bytes | None, damages: list[Damage], changing: bool
) -> ArchivedFile | None:
    """Reads the pieces of a binary log, without a gap from its beginning; of several that begin at
    the same byte the longest that can be read. Adds unreadable and missing ones to `damages`."""
    at, pieces, used, unread = 0, [], [], []
    # The next pieces are the last of the list.
    remaining = sorted(names, key=lambda candidate: parse_extent(candidate) or (0, 0), reverse=True)
    while remaining:
        begin, _ = parse_extent(remaining[-1]) or (0, 0)
        if begin > at:
            break
        here = [candidate for candidate in remaining if (parse_extent(candidate) or (0, 0))[0] == begin]
        remaining = remaining[: -len(here)]
        if begin < at:  # joined pieces have replaced them
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
    if remaining:
        begin, _ = parse_extent(remaining[-1]) or (0, 0)
        words = f"{remaining[-1]}: the bytes from {at:,} to {begin:,} of {file} are missing"
        damages.append(Damage(file, words, remaining[-1]))
    spare = tuple(sorted(set(names) - set(used)))
    return ArchivedFile(file, tuple(pieces), tuple(used), spare) if pieces else None


def _check_continues(files: list[ArchivedFile], following: ArchivedFile, damages: list[Damage]) -> None:
    """Adds to `damages` if a binary log does not continue the last of `files`."""
    if not files:
        return
    last = files[-1]
    if not last.ended:
        words = f"{last.name} ends early in the archive, at offset {last.ends:,}, and {following.name} follows"
        damages.append(Damage(last.name, words))
    missing, extra = following.earlier.minus(last.later), last.later.minus(following.earlier)
    if not missing.is_empty:
        words = f"between {last.name} and {following.name} {missing.count():,} transactions are missing: {shorten_set(missing)}"
        damages.append(Damage(last.name, words))
    elif not extra.is_empty:
        words = (
            f"{following.name} is of another history: its source has not executed {shorten_set(extra)} of {last.name}"
        )
        damages.append(Damage(last.name, words))


def shorten_set(gtids: GtidSet | str) -> str:
    """Returns a set as text for an error, cut off after 160 characters."""
    text = str(gtids)
    return text if len(text) <= 160 else f"{text[:157]}..."
