"""The files that pages are made of besides their texts: the style, the scripts of a report with
sliders, the model for browsers. It imports little, since `headrace page` imports it at its
start."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

from headrace.report.charts import style

# The model for browsers, where it is built.
MODEL = "model.wasm.gz"
# Colours of charts that follow the page, light, dark or printed, by variables of its style. In a
# notebook, which lacks some of these, they stay as drawn.
INKS = {
    style.INK: "--ink",
    style.QUIET: "--quiet",
    style.GRID: "--grid",
    style.SIMULATED: "--simulated",
    style.SECOND: "--second",
    style.GOOD: "--good",
    style.WARN: "--warn",
}
# Parts of a script that a reader needs and a browser does not: lines that are comments, types that
# are declared before a value, and indentation, which has no meaning in a module or a template of
# this project.
COMMENTS = re.compile(
    rb"^[ \t]*/\*(?:(?!\*/).)*\*/[ \t]*\n|^[ \t]*//[^\n]*\n|/\*\* @type \{[^*\n]*\} \*/ ?|^[ \t]+",
    re.MULTILINE | re.DOTALL,
)


def shorten(script: bytes) -> bytes:
    """Returns a module without its comments and indentation."""
    return COMMENTS.sub(b"", script)


INKED = "".join(
    f'svg [{part}="{colour}"] {{ {part}: var({name}, {colour}); }}\n'
    for colour, name in INKS.items()
    for part in ("fill", "stroke")
)


@cache
def build_stylesheet() -> str:
    """Returns the style of a page, with the inks of its charts."""
    return resources.files("headrace.report").joinpath("page.css").read_text(encoding="utf-8") + INKED


def read_live_file(name: str) -> bytes | None:
    """Returns the content of a file in report/live; None where it is not there."""
    file = resources.files("headrace.report").joinpath("live", name)
    return file.read_bytes() if file.is_file() else None
