"""The look of every chart. Colours are those of Okabe and Ito (2008), told apart with any common
colour blindness."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import altair as alt

Chart = TypeVar("Chart", bound="alt.Chart | alt.LayerChart | alt.FacetChart | alt.VConcatChart")

# Published, simulated and measured have these three colours in every chart of the project.
PUBLISHED = "#E69F00"
SIMULATED = "#0072B2"
MEASURED = "#009E73"
# A second and a third line next to one of these, whatever their role: their names tell it.
SECOND, THIRD = "#7A3F97", "#B8A800"
ROLE_COLOURS = {"published": PUBLISHED, "simulated": SIMULATED, "measured": MEASURED}

# The rest of the palette, for volume families. Black is left out: it cannot be seen on a dark page.
FAMILY_COLOURS = {
    "gp3": "#0072B2", "gp2": "#7A3F97", "io1": "#E69F00", "io2": "#D55E00", "io2-block-express": "#CC79A7", "st1": "#009E73",
    "sc1": "#B8A800", "standard": "#8C8C8C", "instance-store": "#7A5195",
}  # fmt: skip
OTHER_FAMILY = "#8C8C8C"
# Colours for series without a colour of their own, in this order.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#B8A800", "#8C8C8C")

# Colours for the parts of a bill, which are neither published nor simulated nor measured.
PARTS = ("#5D7183", "#7A3F97", "#B8A800", "#C2648F", "#8C8C8C")

# Charts are drawn in these and the page turns them into its own text colour, light or dark
# (report/html.py).
INK = "#2b2f36"
QUIET = "#7c838d"
GRID = "#c9ced6"
WARN = "#D55E00"
GOOD = "#00684C"  # what is recommended

WIDTH = 760  # px, fits a printed page
PANEL_HEIGHT = 120  # px
FONT = "DejaVu Sans, Verdana, Arial, sans-serif"


def configure_chart(chart: Chart, padding: int = 8) -> Chart:
    """Returns the chart with the fonts, ticks and colours of this module, and without a frame. It
    is applied once, to the outermost chart."""
    inked = {"labelColor": INK, "titleColor": INK, "labelFontSize": 11, "titleFontSize": 11}
    axis = {
        "tickColor": GRID,
        "domainColor": GRID,
        "gridColor": GRID,
        "gridOpacity": 0.5,
        "labelLimit": 320,
        "titlePadding": 6,
    }
    title = {"color": INK, "anchor": "start", "fontSize": 12, "fontWeight": "bold", "offset": 6}
    return (
        chart.configure(background="transparent", font=FONT, padding=padding)
        .configure_view(stroke=None)
        .configure_axis(**inked, **axis, titleFontWeight="normal")
        .configure_title(**title, subtitleColor=QUIET, subtitleFontSize=11)
        .configure_legend(**inked, labelLimit=320)
        .configure_text(color=INK, fontSize=11)
    )
