"""Sizes and switches as servers and option files write them: 193G, ON, 0."""

from __future__ import annotations

import re

UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4, "p": 1024**5, "e": 1024**6}
SIZE = re.compile(r"(\+?\d{1,20})([kmgtpe]?)\Z", re.ASCII | re.IGNORECASE)
TRUE = ("1", "on", "true", "yes", "detect_and_recover")
FALSE = ("0", "off", "false", "no")


def as_bytes(text: str | None) -> float | None:
    """Returns a size, perhaps with K, M, G, T, P, E (powers of 1024), in bytes, or None."""
    match = SIZE.match((text or "").strip())
    return None if match is None else float(int(match[1]) * UNITS[match[2].lower()])
