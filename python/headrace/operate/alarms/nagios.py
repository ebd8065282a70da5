"""A verdict as a monitoring plugin prints it: one line, performance data behind a bar, and a
plugin's exit code (Monitoring Plugins Development Guidelines, "Plugin Output for Nagios", read
2026-11-23).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from headrace.operate.doctor.output import NAGIOS

# Exit codes of plugins, which are not the command's usual ones.
CODES = {state: code for code, state in enumerate(NAGIOS)}
STATE_OF = {
    "fine": "OK",
    "not storage": "OK",
    "touched": "OK",
    "will bind": "WARNING",
    "misconfigured": "WARNING",
    "binds": "CRITICAL",
    "degraded": "CRITICAL",
    "cannot tell": "UNKNOWN",
}


def get_state(word: str) -> str:
    """Returns the state of a monitoring plugin for a verdict, UNKNOWN for another word."""
    return STATE_OF.get(word, "UNKNOWN")


def build_plugin_line(word: str, text: str, figures: Mapping[str, float | None]) -> str:
    """Returns `STORAGE CRITICAL - ... | 'iops'=3000 ...`: one line without a second bar."""
    words = " ".join(re.sub(r"[|\n\r]", " ", text).split())
    performance_data = [
        f"'{_clean_label(name)}'={_format_number(value)}" for name, value in figures.items() if value is not None
    ]
    return f"STORAGE {get_state(word)} - {word}: {words}" + (
        f" | {' '.join(performance_data)}" if performance_data else ""
    )


def _clean_label(name: str) -> str:
    return re.sub(r"['=|]", "_", name)


def _format_number(value: float) -> str:
    # U: the guidelines' word for a value that could not be determined; they have no infinity.
    return "U" if not math.isfinite(value) else f"{value:.6g}"
