"""A measured file as text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.observe.formats.reading import Recording, open_recording

DOC = "docs/reference/run-description.md"


@dataclass(frozen=True)
class Finding:
    """Something a reader of the figures must know. `kind` is one of the list in the reference; `t_s` where, None for the whole run."""

    kind: str
    text: str
    t_s: float | None = None


def open_text(path: Path) -> Recording:
    """A file with at least one line that is not blank. Raises InputError or CouldNotRun."""
    recording = open_recording(path)
    # Bytes that are not blank can still be: a lone mark of UTF-16, or separators Python counts as blanks.
    if not recording.text.strip():
        raise recording.bad("", "no text", "the file is empty", "Was the recording stopped before its first report?", DOC)
    return recording
