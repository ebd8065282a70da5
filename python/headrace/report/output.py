"""JSON, CSV and files. Data for programs: full precision, stable names, no words."""

from __future__ import annotations

import codecs
import hashlib
import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.base.encoding import to_plain
from headrace.base.files import write_whole
from headrace.errors import InputError

if TYPE_CHECKING:
    import polars as pl

PAGE_FORMATS = (".html", ".md")
CHART_FORMATS = (*PAGE_FORMATS, ".svg", ".png")


def sanitize_text(text: object) -> str:
    """Returns a value as text that is safe for a terminal: characters that cannot be printed
    (escape sequences) become `?`."""
    return "".join(char if char.isprintable() or char in "\n\t\u00a0" else "?" for char in str(text))


# Characters that replace those that a terminal without UTF-8 cannot show: one for each, if columns
# must stay aligned.
ASCII = {
    "▁": "_", "▂": ".", "▃": "-", "▄": ":", "▅": "=", "▆": "+", "▇": "*", "█": "#",
    "±": "+-", "≤": "<=", "≥": ">=", "×": "x", "µ": "u", "–": "-", "—": "-", "…": "...", "→": "->", "°": " deg",
    "“": '"', "”": '"', "’": "'",
}  # fmt: skip


def spell_in_ascii() -> None:
    """Makes stdout and stderr write ASCII in the place of characters that they cannot encode,
    instead of failing."""

    def find_nearest(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        return "".join(ASCII.get(char, "?") for char in error.object[error.start : error.end]), error.end

    codecs.register_error("headrace", find_nearest)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="headrace")


def as_json(value: object) -> str:
    """Returns a value as a JSON document that ends with a newline."""
    return json.dumps(to_plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def as_csv(frame: pl.DataFrame) -> str:
    """Returns a polars frame as CSV with a header; null stays empty, and -0.0 is 0.0."""
    import polars as pl

    floats = pl.col(pl.Float64, pl.Float32)
    return frame.with_columns(pl.when(floats == 0.0).then(0.0).otherwise(floats).name.keep()).write_csv()


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a file whole or not at all. Raises CouldNotRun."""
    write_whole(Path(path), content)


def write_text(path: Path, text: str) -> None:
    """Writes a text in UTF-8 as a file, whole or not at all. Raises CouldNotRun."""
    write_bytes(path, text.encode())


# Marks of pages and charts that Headrace wrote: in the head of a page, behind the chart of an SVG,
# and the text of a PNG (PNG specification, 11.3.4.3 tEXt: keyword "Software").
PAGE_MARK = '<meta name="generator" content="headrace">'
SVG_MARK = "<!-- Made by headrace -->"
# The last line of Markdown, with the start of the SHA-256 of all that stands before it: people add
# notes to Markdown, which show by it.
MARKDOWN_MARK, DIGEST_CHARACTERS = "<!-- Made by headrace, sha256 {} -->", 16
PNG_MARK = b"Software\0headrace"
# Bytes of either end of a file in which the mark stands: ours are within the first or last 100.
MARK_WITHIN = 1024


def mark_markdown(text: str) -> str:
    """Returns a text with the mark as its last line."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:DIGEST_CHARACTERS]
    return f"{text}\n{MARKDOWN_MARK.format(digest)}\n"


def is_own_page(path: Path) -> bool:
    """Returns whether a file is a page or chart that Headrace wrote, so that the next one may
    replace it; False of Markdown that was changed since."""
    marks = {".html": PAGE_MARK.encode(), ".svg": SVG_MARK.encode(), ".png": PNG_MARK}
    mark = marks.get(path.suffix.lower())
    try:
        if path.suffix.lower() == ".md":
            content = path.read_bytes()
            text = content.removesuffix(b"\n").rpartition(b"\n")[0].decode(errors="replace")
            return content == mark_markdown(text).encode()
        with path.open("rb") as file:
            head = file.read(MARK_WITHIN)
            file.seek(max(0, path.stat().st_size - MARK_WITHIN))
            return mark is not None and (mark in head or mark in file.read())
    except OSError:
        return False


def mark_png(content: bytes) -> bytes:
    """Returns a PNG with PNG_MARK in a text chunk behind its header (PNG specification, 5.3:
    length, type, data, CRC of type and data)."""
    import struct
    import zlib

    header_end = 8 + 25  # the signature, and the IHDR chunk: 12 bytes around 13 of data
    typed = b"tEXt" + PNG_MARK
    chunk = struct.pack(">I", len(PNG_MARK)) + typed + struct.pack(">I", zlib.crc32(typed))
    return content[:header_end] + chunk + content[header_end:]


def check_chart_path(path: Path | None, formats: tuple[str, ...] = CHART_FORMATS) -> None:
    """Raises InputError for a path whose ending is not one of `formats`, or whose folder does not
    exist; None is accepted."""
    if path is not None and path.suffix.lower() not in formats:
        what, ending = ("chart", ".svg") if ".svg" in formats else ("page", formats[0])
        rule = f"a {what} is written as {', '.join(formats)}"
        raise InputError(str(path), rule, "the ending of the name decides", f"For example {what}{ending}.")
    if path is not None and not path.parent.is_dir():
        raise InputError(str(path), "the folder does not exist", "", "Make it, or name another.")
    if path is not None and path.is_dir():
        raise InputError(str(path), "is a folder, and a file is to be written", "", "Name a file in it.")
