"""What `headrace lab verify` found: table, words, page."""

from __future__ import annotations

from pathlib import Path

import altair as alt
import polars as pl

from headrace.report import style
from headrace.report.html import Page
from headrace.report.output import write_text
from headrace.report.tables import table
from headrace.report.words import number

COLUMNS = ("volume", "load", "figure", "specified", "published", "model", "measured", "error", "allowed", "within")
RIGHT = ("specified", "published", "model", "measured", "error", "allowed")
VERDICTS = {True: "yes", False: "NO", None: ""}


def rows_of(found) -> list[tuple[str, ...]]:
    """A row a figure; volume and load where they change."""
    rows, last = [], None
    for one in found:
        here = (one.spec, one.load)
        shown = here if here != last else ("", "")
        last = here
        allowed = "" if one.allowed_percent is None else f"± {one.allowed_percent:.1f} %"
        specified, published = ("" if value is None else number(value) for value in (one.specified, one.published))
        rows.append(
            (*shown, f"{one.what} ({one.unit})", specified, published, number(one.model, 4), number(one.measured, 4), f"{one.error_percent:+.1f} %", allowed, VERDICTS[one.within])
        )  # fmt: skip
    return rows


def table_of(found):
    """The figures as a table."""
    return table(COLUMNS, rows_of(found), title="Volumes of this lab: specified, model and measured", right=RIGHT)


def words_of(found) -> list[str]:
    """How many figures are within what is allowed, and what the machine could not do."""
    judged = [one for one in found if one.within is not None]
    beyond = list(dict.fromkeys(one.note for one in found if one.note))
    fine = sum(one.within for one in judged)
    return [f"{fine} of {len(judged)} figures with a tolerance are within it.", *(f"note: {words} Not judged." for words in beyond)]


def chart_of(found) -> alt.FacetChart:
    """p50 and p99 of the loads, model beside measured, by volume."""
    rows = [
        {"volume": one.spec, "load": one.load, "figure": one.what, "ms": value, "from": who}
        for one in found if one.unit == "ms" and one.what in ("p50", "p99")
        for who, value in (("published", one.published), ("simulated", one.model), ("measured", one.measured))
        if value is not None
    ]  # fmt: skip
    base = alt.Chart(pl.DataFrame(rows)).mark_point(filled=True, size=55, opacity=0.9)
    points = base.encode(
        x=alt.X("ms:Q", scale=alt.Scale(type="log"), title="completion latency (ms)"),
        y=alt.Y("load:N", title=None, sort=None),
        shape=alt.Shape("figure:N", legend=alt.Legend(title=None, orient="bottom")),
        color=alt.Color(
            "from:N", scale=alt.Scale(domain=["published", "simulated", "measured"], range=[style.PUBLISHED, style.SIMULATED, style.MEASURED]),
            legend=alt.Legend(title=None, orient="bottom"),
        ),
    )  # fmt: skip
    return style.configured(
        points.properties(width=style.WIDTH - 200)
        .facet(row=alt.Row("volume:N", title=None, sort=None), spacing=6)
        .resolve_scale(y="independent")
    )


def write_page(path: Path, found) -> None:
    """The page, whole or not at all."""
    page = Page(
        "Conformance of this lab's volumes", "fio on every volume, beside the model under the same load and the cap of the specification"
    )
    for words in words_of(found):
        page.paragraph(words)
    page.heading("Latency")
    page.chart(chart_of(found), "50th and 99th percentile of completion latencies by volume and load, simulated and measured")
    page.heading("Figures")
    page.table(COLUMNS, rows_of(found), right=RIGHT)
    write_text(path, page.render())
