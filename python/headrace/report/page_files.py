"""The files that pages are made of besides their words: the style, the scripts of a report that
moves, the model for browsers. It imports nothing that takes time, since `headrace page` begins with
it."""

from __future__ import annotations

from functools import cache
from importlib import resources

from headrace.report.charts import style

# The model for browsers, where it is built.
MODEL = "model.wasm.gz"
# The ink of the charts follows the page: light, dark or printed.
INKED = "".join(
    f'svg [fill="{colour}"] {{ fill: var({name}); }} svg [stroke="{colour}"] {{ stroke: var({name}); }}\n'
    for colour, name in ((style.INK, "--ink"), (style.QUIET, "--quiet"), (style.GRID, "--grid"))
)


@cache
def stylesheet() -> str:
    """Returns the style of a page, with the inks of its charts."""
    return resources.files("headrace.report").joinpath("page.css").read_text(encoding="utf-8") + INKED


def read_moving(name: str) -> bytes | None:
    """Returns a file of the reports that move; None where it is not there."""
    file = resources.files("headrace.report").joinpath("live", name)
    return file.read_bytes() if file.is_file() else None
