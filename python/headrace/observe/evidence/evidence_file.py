"""Evidence as a file: a line of JSON with the facts, then a line for each tick. The doctor judges
it again elsewhere, with the same answer."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from headrace.base.checks import check_number
from headrace.base.files import read_bytes, write_whole
from headrace.base.units import DAY_S
from headrace.errors import InputError, Refusals
from headrace.observe.clock import LAST_YEAR
from headrace.observe.evidence.limits import HoldingLimits
from headrace.observe.evidence.model import Evidence, SourceFacts, Tick, collect_evidence
from headrace.observe.recording import ABSURD

ENDINGS = (".jsonl", ".jsonl.gz")
GZIP = b"\x1f\x8b"  # first bytes (RFC 1952)
HEAD_BYTES = 200  # enough for the first words of the format

SCHEMA = "headrace-evidence/1"
refuse = Refusals("docs/guide/doctor.md")
DAMAGED = "The file is damaged: copy it again, or cut it there."
MAX_BYTES = 256 << 20  # a day of seconds of eight volumes and a server; ours
# Seconds since 1970. A file of a tool without a clock counts from 0.
LATEST_S = datetime(LAST_YEAR + 1, 1, 1, tzinfo=UTC).timestamp()
MOST_TICK_S = 31 * DAY_S  # ours: CloudWatch gives a day at the most
MOST_SPAN_S = 460 * DAY_S  # CloudWatch keeps its points for 455 days


class Header(msgspec.Struct):
    """The first line of the file."""

    schema: str
    facts: SourceFacts
    notes: tuple[str, ...] = ()


def looks_like_evidence(content: bytes) -> bool:
    """Returns True when these are the first bytes of a file of evidence."""
    return content.lstrip()[:60].startswith(b'{"schema":"headrace-evidence')


def is_evidence_file(path: Path) -> bool:
    """Returns True when a file begins as a file of evidence does, compressed or not, and for a gzip
    file whose beginning cannot be read."""
    with path.open("rb") as file:
        is_gzip = file.read(len(GZIP)) == GZIP
        file.seek(0)
        if not is_gzip:
            return looks_like_evidence(file.read(HEAD_BYTES))
        try:
            with gzip.open(file) as unpacked:
                return looks_like_evidence(unpacked.read(HEAD_BYTES))
        except (OSError, EOFError, zlib.error):
            return True


def check_name(path: Path | None) -> None:
    """Raises InputError for a file name whose ending is not one of ENDINGS; None is accepted."""
    if path is not None and not path.name.lower().endswith(ENDINGS):
        rule = f"a recording is written as {' or '.join(ENDINGS)}"
        raise InputError(str(path), rule, "the ending of the name decides", "For example seen.jsonl.gz.")


def save(evidence: Evidence, path: Path) -> None:
    """Writes evidence to a file at once, compressed if its name ends with .gz. Raises
    CouldNotRun."""
    encoder = msgspec.json.Encoder()
    lines = [encoder.encode(Header(SCHEMA, _without_words(evidence.facts), evidence.notes))]
    lines += [encoder.encode(tick.to_document()) for tick in evidence.list_ticks()]
    content = b"\n".join(lines) + b"\n"
    write_whole(path, gzip.compress(content, mtime=0) if path.suffix.lower() == ".gz" else content)


def _without_words(facts: SourceFacts) -> SourceFacts:
    """Returns facts in which replication errors are their numbers alone: their messages name tables
    and rows."""
    if facts.server is None:
        return facts
    channels = tuple(replace(channel, error=channel.error.partition(":")[0]) for channel in facts.server.channels)
    return replace(facts, server=replace(facts.server, channels=channels))


def load(path: Path) -> Evidence:
    """Returns the evidence in a file that `save` wrote. A last line that was cut off is left out,
    with a note. Raises InputError, CouldNotRun."""
    content = read_bytes(path, MAX_BYTES)
    if content[:2] == GZIP:
        content = _unpack(path, content)
    lines = content.split(b"\n")
    notes: list[str] = []
    try:
        header = msgspec.json.decode(lines[0], type=Header)
    except msgspec.MsgspecError as error:
        rule = f"is not the head of a recording: {error}"
        raise refuse.input(f"{path.name}, line 1", rule, "Record again with --record.") from None
    if header.schema != SCHEMA:
        rule = f"is not {SCHEMA}, the form this version reads"
        raise refuse.input(f"{path.name}: {header.schema[:40]}", rule, "Read it with the version that wrote it.")
    _check_facts(f"{path.name}, line 1", header.facts)
    ticks: list[Tick] = []
    decoder = msgspec.json.Decoder(Tick)
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        try:
            tick = decoder.decode(line)
        except msgspec.MsgspecError as error:
            if number == len(lines) and not content.endswith(b"\n"):
                notes.append(f"{path.name}: the last line is cut off and was left out")
                continue
            raise refuse.input(f"{path.name}, line {number}", f"is not a tick: {error}", DAMAGED) from None
        _check_tick(f"{path.name}, line {number}", tick)
        if ticks:
            _check_order(f"{path.name}, line {number}", tick, first=ticks[0], before=ticks[-1])
        ticks.append(tick)
    return collect_evidence(header.facts, ticks, (*header.notes, *notes))


def _check_facts(where: str, facts: SourceFacts) -> None:
    """Raises InputError for facts whose figures no source has."""
    check_number(f"{where}: grain_s", facts.grain_s, 1e-6, MOST_TICK_S, "s", refuse, DAMAGED)
    if facts.vcpus is not None:
        check_number(f"{where}: vcpus", facts.vcpus, 1, ABSURD, refusals=refuse, hint=DAMAGED)
    for volume in facts.volumes:
        _check_limits(f"{where}: limits of {volume.name[:40]}", volume.limits)


def _check_limits(where: str, limits: HoldingLimits | None) -> None:
    """Raises InputError for limits that are negative, or beyond what a disk does."""
    for name, value in ({} if limits is None else asdict(limits)).items():
        if isinstance(value, (int, float)):
            check_number(f"{where}, {name}", value, 0, ABSURD, refusals=refuse, hint=DAMAGED)


def _check_tick(where: str, tick: Tick) -> None:
    """Raises InputError for a time that no clock shows, and for figures that are negative or beyond
    what a disk or a server does, as `Recording.parse_number` does of other recordings."""
    if not 0.0 <= tick.t_unix <= LATEST_S:
        rule = f"must be seconds since 1970, not after the year {LAST_YEAR}"
        hint = "Are its times in another unit? The file may be damaged, too: copy it again."
        raise refuse.input(f"{where}: t_unix = {tick.t_unix:.6g}", rule, hint)
    check_number(f"{where}: duration_s", tick.duration_s, 1e-6, MOST_TICK_S, "s", refuse, DAMAGED)
    parts = {f"volumes.{name[:40]}": row for name, row in tick.volumes.items()}
    parts |= {"server": tick.server, "host": tick.host, "replica": tick.replica}
    for part, row in parts.items():
        for name, value in row.items():
            if value is not None and not 0.0 <= value <= ABSURD:  # a quick look first: there are millions
                check_number(f"{where}: {part}.{name[:40]}", value, 0, ABSURD, refusals=refuse, hint=DAMAGED)


def _check_order(where: str, tick: Tick, first: Tick, before: Tick) -> None:
    """Raises InputError for a tick that begins before the one above it, or too long after the
    first."""
    back_s, span_s = before.t_unix - tick.t_unix, tick.t_unix - first.t_unix
    hint = "The file was put together, or a clock was set: cut it there."
    if back_s > 0:
        raise refuse.input(f"{where}: t_unix", f"lies {back_s:,.6g} s before the tick above it", hint)
    if span_s > MOST_SPAN_S:
        rule = f"a recording covers at most {MOST_SPAN_S / DAY_S:,.0f} days"
        raise refuse.input(f"{where}: t_unix lies {span_s / DAY_S:,.0f} days after the first tick", rule, hint)


def _unpack(path: Path, content: bytes) -> bytes:
    """Returns the content of a gzip file. Raises InputError if it is cut off or too large."""
    unpacker = zlib.decompressobj(wbits=31)  # 31: gzip (zlib manual, inflateInit2)
    try:
        text = unpacker.decompress(content, MAX_BYTES)
    except zlib.error:
        raise InputError(path.name, "is not a whole gzip file", "RFC 1952", "Copy it again.") from None
    if unpacker.unconsumed_tail:
        raise refuse.input(path.name, f"is more than {MAX_BYTES >> 20} MiB unpacked", "Cut it into parts.")
    if not unpacker.eof:
        raise InputError(path.name, "is cut off: the gzip file has no end", "RFC 1952", "Copy it again.")
    return text
