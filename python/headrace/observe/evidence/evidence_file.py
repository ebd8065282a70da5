"""Evidence as a file: a line of JSON with the facts, then a line a tick. The doctor's evidence can
so be judged again elsewhere, with the same answer."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import replace
from pathlib import Path

import msgspec

from headrace.base.files import read_bytes, write_whole
from headrace.errors import InputError, Refusals
from headrace.observe.evidence.model import Evidence, SourceFacts, Tick, collect_evidence

ENDINGS = (".jsonl", ".jsonl.gz")
GZIP = b"\x1f\x8b"  # first bytes (RFC 1952)
HEAD_BYTES = 200  # enough for the first words of the format

SCHEMA = "headrace-evidence/1"
refuse = Refusals("docs/guide/doctor.md")
MAX_BYTES = 256 << 20  # a day of seconds of eight volumes and a server; ours


class Header(msgspec.Struct):
    """The first line."""

    schema: str
    facts: SourceFacts
    notes: tuple[str, ...] = ()


def looks_like_evidence(content: bytes) -> bool:
    """Returns True when these are the first bytes of such a file."""
    return content.lstrip()[:60].startswith(b'{"schema":"headrace-evidence')


def is_evidence_file(path: Path) -> bool:
    """Returns True when a file's first bytes say so, packed or not; a damaged archive may be
    one."""
    with path.open("rb") as file:
        packed = file.read(len(GZIP)) == GZIP
        file.seek(0)
        if not packed:
            return looks_like_evidence(file.read(HEAD_BYTES))
        try:
            with gzip.open(file) as unpacked:
                return looks_like_evidence(unpacked.read(HEAD_BYTES))
        except (OSError, EOFError, zlib.error):
            return True


def check_name(path: Path | None) -> None:
    """Refuses a name whose ending does not say how it is written. Raises InputError."""
    if path is not None and not path.name.lower().endswith(ENDINGS):
        rule = f"a recording is written as {' or '.join(ENDINGS)}"
        raise InputError(str(path), rule, "the ending of the name decides", "For example seen.jsonl.gz.")


def save(evidence: Evidence, path: Path) -> None:
    """Writes it, whole or not at all; packed where the name ends with .gz. Raises CouldNotRun."""
    encoder = msgspec.json.Encoder()
    lines = [encoder.encode(Header(SCHEMA, _without_words(evidence.facts), evidence.notes))]
    lines += [encoder.encode(tick.to_document()) for tick in evidence.list_ticks()]
    content = b"\n".join(lines) + b"\n"
    write_whole(path, gzip.compress(content, mtime=0) if path.suffix.lower() == ".gz" else content)


def _without_words(facts: SourceFacts) -> SourceFacts:
    """Returns facts with the numbers alone of replication errors: their words name tables and
    rows."""
    if facts.server is None:
        return facts
    channels = tuple(replace(channel, error=channel.error.partition(":")[0]) for channel in facts.server.channels)
    return replace(facts, server=replace(facts.server, channels=channels))


def load(path: Path) -> Evidence:
    """Reads what `save` wrote. A last line that was cut off is left out, with a note. Raises
    InputError, CouldNotRun."""
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
    ticks = []
    decoder = msgspec.json.Decoder(Tick)
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        try:
            ticks.append(decoder.decode(line))
        except msgspec.MsgspecError as error:
            if number == len(lines) and not content.endswith(b"\n"):
                notes.append(f"{path.name}: the last line is cut off and was left out")
                continue
            hint = "The file is damaged: copy it again."
            raise refuse.input(f"{path.name}, line {number}", f"is not a tick: {error}", hint) from None
    return collect_evidence(header.facts, ticks, (*header.notes, *notes))


def _unpack(path: Path, content: bytes) -> bytes:
    """Unpacks a file. Raises InputError for a file that is cut off or too large."""
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
