"""Patterns with wildcards, of filters and of policies."""

from __future__ import annotations

import re
from collections.abc import Sequence


def compile_wildcards(between: Sequence[str], ignore_case: bool = False) -> re.Pattern[str]:
    """Returns a pattern that `fullmatch` holds against texts. `between`: what stands between the
    `*`, each part a regular expression of a fixed length.

    A part after a `*` is taken where it comes first and never tried elsewhere (an atomic group):
    that finds a match whenever there is one, because the parts have fixed lengths, and takes a time
    of at most text times pattern. Plain `.*` would go through all combinations, for days.
    """
    first, *rest = between
    tail = f"(?>.*?{')(?>.*?'.join(rest[:-1])})" if rest[:-1] else ""
    last = f".*{rest[-1]}" if rest else ""
    return re.compile(first + tail + last, re.DOTALL | (re.IGNORECASE if ignore_case else 0))
