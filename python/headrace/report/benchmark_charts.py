"""Charts of measured runs: the time line, how often each throughput occurred, latency percentiles, which cap bound when; and two runs over each other."""

from __future__ import annotations

import altair as alt
import polars as pl

from headrace.base import caps
from headrace.report import style
from headrace.report.charts import SHORT, TimeAxis, decades, lines

MOST_POINTS = 720
STRIP_HEIGHT = 22
DENSITY_HEIGHT = 150
CAPS = {caps.column(name): caps.short(name) for name in caps.COUNTED}
# The nines of a percentile axis: 1 / (1 - q), so that p90, p99 and p99.9 stand equally far apart.
NINES = {2: "p50", 10: "p90", 20: "p95", 100: "p99", 1_000: "p99.9", 10_000: "p99.99", 100_000: "p99.999"}
MOST_NINES = 100_000.0
# The first run of a comparison is the ground the second is seen against.
FIRST, SECOND = style.QUIET, style.MEASURED


def thinned(series: pl.DataFrame) -> pl.DataFrame:
    """At most MOST_POINTS rows: means over stretches; a stretch that has warm-up in it is warm-up."""
    each = max(1, -(-series.height // MOST_POINTS))
    if each == 1:
        return series
    numbers = [name for name, kind in series.schema.items() if kind.is_numeric() and name not in ("t_s", "duration_s")]
    return series.group_by(pl.int_range(series.height) // each, maintain_order=True).agg(
        pl.col("t_s").first(), pl.col("duration_s").sum(), pl.col("phase").first(), pl.col(numbers).mean()
    )


def known(series: pl.DataFrame, name: str) -> bool:
    """Whether a column has any figure."""
    return name in series.columns and series[name].drop_nulls().len() > 0


def time_line(series: pl.DataFrame, title: str, unit: str = "transactions") -> alt.VConcatChart:
    """Throughput, latency, the disks, balance and caps on one time axis; the warm-up shaded."""
    axis = TimeAxis(None, float(series["t_s"][-1] + series["duration_s"][-1]))
    frame = axis.add(thinned(series))
    panels = [
        (f"{unit} a second", [("tps", unit, style.MEASURED)], {}),
        ("p95 (ms)", [("p95_ms", "p95 of a second", style.WARN)], {}),
        ("IOPS", [("read_iops", "reads", style.SIMULATED), ("write_iops", "writes", style.WARN)], {}),
        ("MiB/s", [("read_mib_s", "read", style.SIMULATED), ("write_mib_s", "written", style.WARN)], {}),
        ("mean wait (ms)", [("read_wait_ms", "reads", style.SIMULATED), ("write_wait_ms", "writes", style.WARN)], {}),
        ("requests under way", [("queue", "queue", style.QUIET)], {}),
        ("credit balance (%)", [("balance_percent", "balance", style.SIMULATED)], _balance_scale(frame)),
    ]
    shown = [(y_title, [part for part in parts if known(frame, part[0])], options) for y_title, parts, options in panels]
    shown = [panel for panel in shown if panel[1]]
    # An instance without limits bounds nothing: only the volume's caps are shown when they did not bind either.
    strip = [name for name in CAPS if known(frame, name) and (name.startswith("cap_volume") or frame[name].max() > 0)]
    height = 84 if len(shown) > 4 else style.PANEL_HEIGHT
    drawn = []
    for index, (y_title, parts, options) in enumerate(shown):
        x = axis.x(index == len(shown) - 1 and not strip)
        # A latency of a second without transactions is none: lines go on over it.
        panel = lines(frame, x, y_title, parts, height=height, **options)
        drawn.append(_with_warmup(frame, x, panel, height))
    if strip:
        drawn.append(_caps(frame, axis, strip))
    warm = frame.filter(pl.col("phase") == "warmup")["duration_s"].sum()
    subtitle = f"Shaded: {warm:,.0f} s of warm-up, which do not count." if warm else ""
    stacked = alt.vconcat(*drawn, spacing=26).resolve_scale(x="shared")
    return style.configured(stacked.properties(title=alt.TitleParams(title, subtitle=subtitle, offset=16)))


def _balance_scale(frame: pl.DataFrame) -> dict:
    """All of 0 to 100 %, but for a volume that is all but empty: there the last credits are what matters."""
    most = frame["balance_percent"].max() if known(frame, "balance_percent") else None
    return {"domain": [0, 100]} if most is None or most > 10 else {}


def _with_warmup(frame: pl.DataFrame, x: alt.X, panel: alt.LayerChart, height: int) -> alt.LayerChart:
    warm = frame.filter(pl.col("phase") == "warmup")
    if not warm.height:
        return panel
    span = pl.DataFrame({"at": [warm["at"][0]], "until": [warm["until"][-1]]})
    shade = alt.Chart(span).mark_rect(color=style.QUIET, opacity=0.12).encode(x=x, x2="until:T", y=alt.value(0), y2=alt.value(height))
    return alt.layer(shade, panel)


def _caps(frame: pl.DataFrame, axis: TimeAxis, names: list[str]) -> alt.Chart:
    """A strip for each cap: the darker, the longer requests waited for it in that second."""
    rows = pl.concat(
        [frame.select("at", "until", pl.col(name).fill_null(0.0).alias("share"), pl.lit(CAPS[name]).alias("cap")) for name in names]
    )
    colour = alt.Color(
        "share:Q", scale=alt.Scale(domain=[0, 1], range=["#f3f4f6", style.WARN], interpolate="rgb"),
        legend=alt.Legend(title="share of the time in which requests waited for it", orient="bottom", format=".0%", tickCount=3, gradientLength=180, titleLimit=400),
    )  # fmt: skip
    return (
        alt.Chart(rows).mark_rect()
        .encode(x=axis.x(True), x2="until:T", y=alt.Y("cap:N", sort=[CAPS[name] for name in names], axis=alt.Axis(title="cap that bound", ticks=False)), color=colour)
        .properties(width=style.WIDTH, height=STRIP_HEIGHT * len(names))
    )  # fmt: skip


def density(parts: list[tuple[str, pl.DataFrame, str]], unit: str = "transactions") -> alt.LayerChart | None:
    """How often each throughput of a second occurred after the warm-up. `parts`: label, time line, colour. None where nothing varies."""
    frames = [
        series.filter(pl.col("phase") == "measure").select("tps").drop_nulls().with_columns(pl.lit(label).alias("run"))
        for label, series, _ in parts
    ]
    if any(frame.height < 5 or frame["tps"].min() == frame["tps"].max() for frame in frames):
        return None
    values = pl.concat(frames)
    low, high = values["tps"].min(), values["tps"].max()
    room = 0.1 * (high - low)
    colour = alt.Color("run:N", scale=alt.Scale(domain=[label for label, _, _ in parts], range=[shade for _, _, shade in parts]),
                       legend=alt.Legend(title=None, orient="bottom") if len(parts) > 1 else None)  # fmt: skip
    area = (
        alt.Chart(values)
        .transform_density("tps", groupby=["run"], as_=["tps", "density"], extent=[max(0.0, low - room), high + room], steps=200)
        .mark_area(opacity=0.5)
        .encode(
            x=alt.X(
                "tps:Q", axis=alt.Axis(title=f"{unit} in one second", labelExpr=SHORT, tickCount=9), scale=alt.Scale(zero=False, nice=False)
            ),
            y=alt.Y("density:Q", stack=None, axis=alt.Axis(title="density (share per unit)", tickCount=4)),
            color=colour,
        )
    )
    marks = pl.concat(
        [frame.select(pl.lit(frame["run"][0]).alias("run"), pl.lit(frame["tps"].mean()).alias("mean")).head(1) for frame in frames]
    ).with_columns(pl.format("mean {}", pl.col("mean").round(0).cast(pl.Int64)).alias("text"))
    rule = alt.Chart(marks).mark_rule(strokeDash=[4, 3], strokeWidth=1.6).encode(x="mean:Q", color=colour)
    words = (
        alt.Chart(marks).mark_text(align="left", dx=4, baseline="top").encode(x="mean:Q", y=alt.value(2), text="text:N")
        if len(parts) == 1
        else None
    )
    return style.configured(alt.layer(*[layer for layer in (area, rule, words) if layer is not None]).properties(
        width=style.WIDTH, height=DENSITY_HEIGHT, title="How often each throughput occurred"))  # fmt: skip


def percentiles(parts: list[tuple[str, pl.DataFrame, str]]) -> alt.LayerChart | None:
    """Latency over the percentile, up to where ten transactions are slower. `parts`: label, histogram (value_ms, count, share), colour."""
    frames = []
    for label, histogram, _ in parts:
        total = histogram["count"].sum()
        frame = histogram.filter((pl.col("share") < 1.0) & (pl.col("share") >= 0.5) & ((1 - pl.col("share")) * total >= 10))
        frames.append(
            frame.select(
                "value_ms", (1.0 / (1.0 - pl.col("share"))).clip(upper_bound=MOST_NINES).alias("nines"), pl.lit(label).alias("run")
            )
        )
    rows = pl.concat(frames) if frames else pl.DataFrame()
    if rows.height < 2:
        return None
    words = ", ".join(f"'{value}': '{label}'" for value, label in NINES.items())
    x = alt.X("nines:Q", scale=alt.Scale(type="log", nice=False, padding=10),
              axis=alt.Axis(title="percentile of the transactions after the warm-up", values=list(NINES), labelExpr=f"{{{words}}}[format(datum.value, 'd')]"))  # fmt: skip
    wide = rows["value_ms"].max() > 30 * rows["value_ms"].min()
    axis = {"values": decades(rows["value_ms"].min(), rows["value_ms"].max())} if wide else {"tickCount": 6}
    y = alt.Y("value_ms:Q", scale=alt.Scale(type="log", nice=False, padding=6) if wide else alt.Scale(zero=True),
              axis=alt.Axis(title="latency (ms)", labelExpr="format(datum.value, '~g')", **axis))  # fmt: skip
    colour = alt.Color("run:N", scale=alt.Scale(domain=[label for label, _, _ in parts], range=[shade for _, _, shade in parts]),
                       legend=alt.Legend(title=None, orient="bottom") if len(parts) > 1 else None)  # fmt: skip
    line = alt.Chart(rows).mark_line(strokeWidth=1.8, interpolate="step-after").encode(x=x, y=y, color=colour)
    return style.configured(alt.layer(line).properties(width=style.WIDTH, height=220, title="Latency percentiles"))


def over_each_other(parts: list[tuple[str, pl.DataFrame, str]], column: str, y_title: str) -> alt.LayerChart | None:
    """One figure of several runs over time, from the end of each one's warm-up. None where one does not have it."""
    if not all(known(series, column) for _, series, _ in parts):
        return None
    frames = []
    for label, series, _ in parts:
        part = series.filter(pl.col("phase") == "measure")
        if part.height:
            frames.append((label, thinned(part.with_columns(pl.col("t_s") - part["t_s"][0]))))
    if len(frames) < len(parts):
        return None
    axis = TimeAxis(None, max(float(frame["t_s"][-1]) + 1.0 for _, frame in frames))
    rows = pl.concat([axis.add(frame).select("at", column, pl.lit(label).alias("run")) for label, frame in frames])
    colour = alt.Color("run:N", scale=alt.Scale(domain=[label for label, _, _ in parts], range=[shade for _, _, shade in parts]),
                       legend=alt.Legend(title=None, orient="bottom"))  # fmt: skip
    y = alt.Y(f"{column}:Q", scale=alt.Scale(zero=True), axis=alt.Axis(title=y_title, labelExpr=SHORT, tickCount=5))
    drawn = alt.Chart(rows).mark_line(strokeWidth=1.4).encode(x=axis.x(True), y=y, color=colour).properties(width=style.WIDTH, height=180)
    return style.configured(alt.layer(drawn).properties(title=f"{y_title} after the warm-up"))


def intervals(differences) -> alt.LayerChart | None:
    """Changes with their intervals, in percent; what has no interval is left out."""
    rows = [
        {"figure": one.words, "change": one.change_percent, "low": one.low_percent, "high": one.high_percent, "seen": "differs" if one.verdict in ("higher", "lower") else "may be the same"}
        for one in differences if one.low_percent is not None and one.change_percent is not None
    ]  # fmt: skip
    if not rows:
        return None
    frame = pl.DataFrame(rows)
    y = alt.Y("figure:N", sort=None, axis=alt.Axis(title=None))
    x_title = "change of the second against the first (%), 95 % interval"
    colour = alt.Color(
        "seen:N",
        scale=alt.Scale(domain=["differs", "may be the same"], range=[SECOND, FIRST]),
        legend=alt.Legend(title=None, orient="bottom"),
    )
    base = alt.Chart(frame).encode(y=y, color=colour)
    zero = alt.Chart(pl.DataFrame({"zero": [0.0]})).mark_rule(color=style.INK).encode(x=alt.X("zero:Q", axis=alt.Axis(title=x_title)))
    bars = base.mark_rule(strokeWidth=3).encode(x=alt.X("low:Q", axis=alt.Axis(title=x_title)), x2="high:Q")
    points = base.mark_point(filled=True, size=60, opacity=1).encode(x="change:Q")
    return style.configured(alt.layer(zero, bars, points).properties(width=style.WIDTH - 200, height=24 * len(rows)))
