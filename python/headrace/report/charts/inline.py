"""Charts inside a page, as SVG that is as exact as a screen shows: as wide as the text, and once
more as wide as a phone."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any

from headrace.report.charts.drawing import svg_of

if TYPE_CHECKING:
    import altair as alt

# Attributes of SVG that place something, px.
PLACED = re.compile(r'\b(transform|x|y|x1|x2|y1|y2|width|height)="([^"]*)"')
EXACT = re.compile(r"-?\d+\.\d{2,}")
STEP = re.compile(r"([ML])(-?[\d.]+),(-?[\d.]+)|Z")

PHONE_PX = 360  # the width of a chart for a phone: its 400 px without the margins of the page
LEAST_PLOT_PX = 150  # between the axes; less shows nothing
FIRST_PLOT_PX = 270  # until it is known what the labels take
TRIES = 3  # drawings until a plot and its labels are as wide as a phone
PHONE_LETTERS = 46  # of a line of a title: bold letters of 12 px are 7.5 px wide at most
PHONE_LABEL_PX = 140  # the width of the label of a row
PHONE_TICKS = 4  # of an axis from left to right: a time is some 50 px wide


def inline_svg(drawn: str, prefix: str) -> str:
    """Returns SVG text to put into a page: ids begin with `prefix`, since charts on one page share
    a name space, and places are rounded to a tenth of a pixel. The page's stylesheet sets its
    ink."""
    drawn = re.sub(r"^<\?xml[^>]*>|<!DOCTYPE[^>]*>", "", drawn).strip()
    drawn = PLACED.sub(lambda match: f'{match[1]}="{_rounded(match[2])}"', drawn)
    drawn = re.sub(r'\bd="([^"]*)"', lambda match: f'd="{_shortened_path(match[1])}"', drawn)
    drawn = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', drawn)
    drawn = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", drawn)
    return re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', drawn)


def _rounded(text: str) -> str:
    return EXACT.sub(lambda match: f"{float(match[0]):.1f}".removesuffix(".0"), text)


def _shortened_path(path: str) -> str:
    """Returns a path whose steps along one axis are written as such (`H`, `V`), and are one step
    where they go on in their direction: most of a step line is left out so. A path of curves is
    rounded alone."""
    path = _rounded(path)
    steps = list(STEP.finditer(path))
    if "".join(step[0] for step in steps) != path:
        return path
    parts: list[tuple[str, str, bool]] = []  # letter, place, whether it goes up
    x = y = ""
    for step in steps:
        if step[0] == "Z":
            parts.append(("Z", "", False))
            continue
        before, (x, y) = (x, y), (step[2], step[3])
        if step[1] == "M" or (x != before[0] and y != before[1]):
            parts.append((step[1], f"{x},{y}", False))
        elif (x, y) != before:
            letter, place, last = ("V", y, before[1]) if x == before[0] else ("H", x, before[0])
            part = (letter, place, float(place) > float(last))
            if (parts[-1][0], parts[-1][2]) == (part[0], part[2]):
                parts.pop()
            parts.append(part)
    return "".join(letter + place for letter, place, _ in parts)


def phone_svg(chart: alt.TopLevelMixin) -> str | None:
    """Returns a chart as SVG text of at most the width of a phone, with fewer ticks and long words
    on several lines; None for a chart that fits as it is."""
    spec = chart.to_dict()
    widest, plot, drawn = _widest(spec), FIRST_PLOT_PX, ""
    if widest <= plot:
        return None
    for _ in range(TRIES):
        drawn = svg_of(_narrowed(spec, widest - plot))
        size = re.search(r'<svg[^>]* width="([\d.]+)"', drawn)
        over = (float(size[1]) if size else 0.0) - PHONE_PX
        if -12 <= over <= 0 or plot == LEAST_PLOT_PX:
            break
        plot = max(LEAST_PLOT_PX, int(plot - over))
    return drawn


def _widest(part: object) -> float:
    """Returns the width of the widest plot of a specification, px."""
    if isinstance(part, dict):
        own = part.get("width")
        inner = [_widest(value) for name, value in part.items() if name != "datasets"]
        return max([float(own) if isinstance(own, (int, float)) else 0.0, *inner])
    return max(map(_widest, part), default=0.0) if isinstance(part, list) else 0.0


def _narrowed(part: Any, less: float, key: str = "") -> Any:
    """Returns a part of a specification with plots that are `less` px narrower; `key`: its name."""
    if isinstance(part, list):
        return [_narrowed(value, less, key) for value in part]
    if not isinstance(part, dict):
        return part
    new = {name: value if name == "datasets" else _narrowed(value, less, name) for name, value in part.items()}
    if isinstance(width := part.get("width"), (int, float)):
        new["width"] = max(LEAST_PLOT_PX, width - less)
    if key == "x" and isinstance(at := part.get("value"), (int, float)) and at > PHONE_PX / 2:
        new["value"] = max(0, at - less)  # what stands at the right end of a plot
    if key == "x" and isinstance(new.get("axis"), dict):
        new["axis"] = new["axis"] | {"tickCount": PHONE_TICKS, "labelOverlap": True}
    if key == "axis":
        new["labelLimit"] = PHONE_LABEL_PX
    if key == "config":
        # Legends below each other, not side by side.
        new["legend"] = new.get("legend", {}) | {"layout": {"bottom": {"direction": "vertical", "anchor": "start"}}}
    elif key == "legend":
        new |= {"orient": "bottom", "columns": 1, "labelLimit": PHONE_PX - 100, "titleLimit": PHONE_PX}
    for name in ("title", "text", "subtitle"):
        words = part.get(name)
        if isinstance(words, str) and len(words) > PHONE_LETTERS - 16 and (name == "title" or key == "title"):
            new[name] = textwrap.wrap(words, PHONE_LETTERS - 16 if key == "legend" else PHONE_LETTERS)
    return new
