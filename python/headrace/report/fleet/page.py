"""The answers for a fleet as one page, and savings against risk as a chart: a point for each volume
that can be changed, or that needs more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import altair as alt
import polars as pl

from headrace.report.charts import style
from headrace.report.charts.builders import SHORT, Drawing, make_colour
from headrace.report.fleet import words
from headrace.report.fleet.words import select_verdict
from headrace.report.view import View

MOST_POINTS = 1_000  # more would only make the file larger; those that save most are drawn
NAMED = 3  # points with their name: those worth most
RIGHT_ABOVE = 60.0  # % of risk: a name would leave the chart; a guess
NAME_HEIGHT = 0.05  # of the chart's height: a line of text, 16 of 320 pixels


def draw_savings_against_risk(answers: Sequence) -> Drawing | None:
    """Draws savings against risk; None where no volume with a known risk can be changed."""
    rated = [answer for answer in select_verdict(answers, "change") if answer.risk is not None]
    if not rated:
        return None
    drawn = sorted(rated, key=lambda answer: (-answer.saves_usd, answer.key))[:MOST_POINTS]
    frame = pl.DataFrame(
        {
            "name": [answer.key for answer in drawn],
            "type": [_get_type(answer.today) for answer in drawn],
            "risk": [100.0 * float(answer.risk) for answer in drawn],
            "usd": [float(answer.saves_usd) for answer in drawn],
        }
    )
    present = set(frame["type"])
    colours = {
        kind: hue for kind, hue in (style.FAMILY_COLOURS | {"other": style.OTHER_FAMILY}).items() if kind in present
    }
    x = alt.X(
        "risk:Q",
        scale=alt.Scale(domain=[0, 100], nice=False, clamp=True),
        axis=alt.Axis(title="risk: fortnights that miss the goal (%)", values=list(range(0, 101, 10))),
    )
    y = alt.Y(
        "usd:Q",
        scale=alt.Scale(zero=True, nice=True),
        axis=alt.Axis(title="saves (USD a month)", labelExpr=SHORT, tickCount=6),
    )
    base = alt.Chart(frame)
    points = base.mark_point(filled=True, opacity=0.7, size=60).encode(
        x=x, y=y, color=make_colour("type", colours, "right", title="type today")
    )
    names = [
        alt.Chart(named).mark_text(align=align, dx=dx, dy=-6).encode(x="risk:Q", y="usd:Q", text="name:N")
        for align, dx, named in _choose_names(frame)
    ]
    cut = f" (the {MOST_POINTS:,} largest of {len(rated):,})" if len(rated) > MOST_POINTS else ""
    title = f"Savings against risk{cut}"
    return style.configure_chart(alt.layer(points, *names).properties(width=style.WIDTH - 160, height=320, title=title))


def _choose_names(frame: pl.DataFrame) -> list[tuple[Literal["left", "right"], int, pl.DataFrame]]:
    """Returns the points that get their name, with its alignment and offset in px: the NAMED worth
    most, without those whose names would cover another."""
    worth = pl.col("usd") * (1 - pl.col("risk") / 100)
    top = float(frame["usd"].max())  # pyright: ignore[reportArgumentType]
    chosen: list[dict] = []
    for row in frame.sort(worth, descending=True, maintain_order=True).head(NAMED).to_dicts():
        if all(abs(row["usd"] - other["usd"]) >= NAME_HEIGHT * top for other in chosen):
            chosen.append(row)
    sides: dict[Literal["left", "right"], list[dict]] = {"left": [], "right": []}
    for row in chosen:
        sides["right" if row["risk"] > RIGHT_ABOVE else "left"].append(row)
    return [(align, 8 if align == "left" else -8, pl.DataFrame(rows)) for align, rows in sides.items() if rows]


def _get_type(storage: str) -> str:
    """Returns the volume type in a storage notation."""
    words = storage.split(":")
    kind = words[1] if words[0].startswith("raid") and len(words) > 1 else words[0]
    kind = kind.lstrip("0123456789x") if kind[:1].isdigit() else kind
    return kind if kind in style.FAMILY_COLOURS else "other"


def build_view(answers: Sequence, prices: str, notes: Sequence[str] = ()) -> View:
    """Returns the answers as the view of a page: with savings against risk as a chart."""
    return words.build_view(answers, prices, notes, draw_savings_against_risk(answers))
