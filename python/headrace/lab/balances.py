"""Saves credit balances in files, to restore them later on the same volume or on one like it."""

from __future__ import annotations

import json
from pathlib import Path

from headrace.base.files import write_whole
from headrace.errors import CouldNotRun, InputError
from headrace.lab.calls import Balance

FORMAT = "headrace-balance/1"
# Far beyond the balance of 128 members, at some 100 bytes each.
MAX_FILE_BYTES = 1 << 20


def save(balance: Balance, path: str | Path) -> None:
    """Writes the balance, whole or not at all. Raises CouldNotRun."""
    write_whole(Path(path), (json.dumps(balance["state"], indent=2) + "\n").encode())


def load(path: str | Path) -> dict:
    """Reads the file of `save`, for Lab.restore_balance. Raises InputError, CouldNotRun."""
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        hint = "Save one: headrace volume balance VOL --save FILE."
        raise InputError(str(path), f"cannot be read: {error.strerror}", "", hint) from None
    except OSError as error:
        raise CouldNotRun(str(path), f"cannot be read: {error.strerror}", "", "Is it yours to read?") from None
    try:
        state = json.loads(raw) if len(raw) <= MAX_FILE_BYTES else None
    except (ValueError, RecursionError):
        state = None
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        rule = f"is not a saved balance ({FORMAT})"
        raise InputError(str(path), rule, "headrace volume balance --save", "Is it the file you meant?")
    return state
