"""A measured file as text."""

from __future__ import annotations

from pathlib import Path

from headrace.workload.importers.reading import Recording, open_recording
from headrace.workload.runs.model import DOC


def open_text(path: Path) -> Recording:
    """A file with at least one line that is not blank. Raises InputError or CouldNotRun."""
    recording = open_recording(path)
    # Bytes that are not blank can still be: a lone mark of UTF-16, or separators Python counts as blanks.
    if not recording.text.strip():
        raise recording.bad("", "no text", "the file is empty", "Was the recording stopped before its first report?", DOC)
    return recording
