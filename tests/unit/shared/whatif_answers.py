"""Answers of the model for pages, read as a page reads them (`crates/whatif/src/columns.rs`)."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from typing import Any

NUMBER_BYTES = 8


def read_answers(content: bytes) -> Iterator[dict[str, Any]]:
    """Yields answers that stand one after another, with their columns by name; None where a number is missing."""
    at = 0
    while at < len(content):
        head_bytes, count = struct.unpack_from("<II", content, at)
        begin = at + 2 * struct.calcsize("<I")
        head = json.loads(content[begin : begin + head_bytes])
        numbers = struct.unpack_from(f"<{count}d", content, begin + head_bytes)
        rows = count // max(1, len(head["columns"]))
        columns = {name: numbers[nth * rows : (nth + 1) * rows] for nth, name in enumerate(head["columns"])}
        yield head | {
            "columns": {
                name: [None if math.isnan(number) else number for number in column] for name, column in columns.items()
            }
        }
        at = begin + head_bytes + NUMBER_BYTES * count


def read_answer(content: bytes) -> dict[str, Any]:
    """Returns the answer to one question."""
    [answer] = read_answers(content)
    return answer
