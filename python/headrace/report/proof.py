"""A proof as tables and a page: predicted and measured. Reads results, runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from headrace.base.encoding import pick_fields
from headrace.report.charts import predictions
from headrace.report.tables import fold_of
from headrace.report.view import Block, Card, Fold, Items, Sentence, Table, View, make_columns, make_drawn_chart
from headrace.report.words import format_latency, format_moment, format_number

if TYPE_CHECKING:
    from headrace.experiment.proof import Proof, Step

TITLES = (
    "configuration", "as it is run here", "cache", "clients", "tps predicted", "80 % interval", "tps measured", "tps error",
    "p95 predicted", "p95 measured", "p95 error", "verdict",
)  # fmt: skip
BRIEF = ("configuration", "tps predicted", "tps measured", "tps error", "verdict")
COLUMNS = make_columns(TITLES, number=TITLES[2:-1], brief=BRIEF)
CSV_COLUMNS = (
    "role", "name", "storage_full", "storage", "log_storage", "cache_gib", "threads", "tps_predicted", "tps_low", "tps_high",
    "tps_measured", "tps_error_percent", "p95_ms_predicted", "p95_ms_measured", "p95_error_percent", "verdict",
)  # fmt: skip
STATES = {"complete": "", "interrupted": "interrupted", "broken": "broke off"}


def list_rows(proof: Proof) -> list[tuple[str, ...]]:
    """Returns the cells of COLUMNS, a row for each configuration of a proof."""
    table_rows = []
    for step in proof.steps:
        measured, predicted, run = step.measured, step.predicted, step.configuration
        interval = (
            ""
            if predicted is None or predicted.tps_low is None
            else f"{format_number(predicted.tps_low)} to {format_number(predicted.tps_high)}"
        )
        what = (describe_step(step), run.place, f"{run.cache_gib * 1024:,.0f} MiB", str(run.threads))
        tps = (
            format_number(predicted.tps) if predicted else "calibrated on",
            interval,
            "not run" if measured is None else format_number(measured.tps),
        )
        p95 = (
            format_latency(predicted.p95_ms) if predicted else "",
            "" if measured is None or measured.p95_ms is None else format_latency(measured.p95_ms),
        )
        errors = (format_signed_percent(step.tps_error_percent), format_signed_percent(step.p95_error_percent))
        table_rows.append((*what, *tps, errors[0], *p95, errors[1], describe_verdict(proof, step)))
    return table_rows


def describe_step(step: Step) -> str:
    """Returns the role of a configuration and its storage before scaling."""
    return step.full.place if step.role == "given" else f"{step.role}: {step.full.place}"


def describe_verdict(proof: Proof, step: Step) -> str:
    """Returns the verdict on a configuration, holds or OFF, or why there is none."""
    if step.measured is not None and step.measured.state != "complete":
        return STATES[step.measured.state]
    return {"holds": "holds", "off": "OFF", "machine": "machine too busy", "": ""}[proof.judge(step)]


def format_signed_percent(percent: float | None) -> str:
    """Returns an error in percent with its sign; "" without one."""
    return "" if percent is None else f"{percent:+.1f} %"


def build_frame(proof: Proof) -> pl.DataFrame:
    """Returns a row for each configuration, for CSV."""
    table_rows = []
    for step in proof.steps:
        predicted, measured, run = step.predicted, step.measured, step.configuration
        row: dict[str, object] = {"role": step.role, "storage_full": step.full.place, "verdict": proof.judge(step)}
        row |= pick_fields(run, "name", "storage", "log_storage", "cache_gib", "threads")
        row |= pick_fields(step, "tps_error_percent", "p95_error_percent")
        row |= {name: getattr(predicted, name, None) for name in ("tps_low", "tps_high")}
        for figure in ("tps", "p95_ms"):
            row[f"{figure}_predicted"] = getattr(predicted, figure, None)
            row[f"{figure}_measured"] = getattr(measured, figure, None)
        table_rows.append(row)
    return pl.DataFrame(table_rows, infer_schema_length=None).select(CSV_COLUMNS)


def describe_setup(proof: Proof) -> list[str]:
    """Returns sentences on load, scale and machine of a proof, and the file of its predictions."""
    machine = proof.machine
    scale = f"data, cache x {proof.data_scale:.3g}; IOPS, MiB/s, clients x {proof.rate_scale:.3g}"
    counted = f"{proof.warmup_s} s do not count, {proof.seconds} s do; seed {proof.seed}"
    processors = f"{machine.get('cpus')} processors ({machine.get('cpu') or '?'}), {machine.get('memory_gib')} GiB"
    lines = [
        f"{proof.source}, on {proof.server}, {proof.engine}.",
        f"Load: {proof.load}",
        f"Scale: {scale}. An empty cache at the start; {counted}.",
        f"Machine: {processors}, Linux {machine.get('kernel')}.",
    ]
    if proof.predictions is not None:
        stored = proof.predictions
        file = f"{stored.file}, SHA-256 {stored.sha256}"
        lines.append(f"Predicted {stored.at}, before any of them was run: {file}.")
    return lines


def make_title(proof: Proof) -> str:
    """Returns the name and state of a proof in a line."""
    return f"Proof {proof.name}: predicted and measured" + (f" ({proof.state})" if proof.state != "complete" else "")


def list_notes(proof: Proof) -> list[str]:
    """Returns the notes of a proof, the warnings of predictions and the findings of runs."""
    lines = list(proof.notes)
    for step in proof.steps:
        for sentence in (
            *(step.predicted.warnings if step.predicted else ()),
            *(step.measured.findings if step.measured else ()),
        ):
            line = f"{step.configuration.name}: {sentence}"
            if line not in lines:
                lines.append(line)
    return lines


def build_view(proof: Proof) -> View:
    """Returns the proof as a view."""
    charts = [make_drawn_chart(chart, described) for chart, described in predictions.draw_proof(proof, describe_step)]
    blocks: list[Block] = [*charts[:1], build_table(proof), *charts[1:]]
    if (seconds := _build_seconds(proof)) is not None:
        blocks.append(seconds)
    blocks.append(Fold("Setup", [Items(describe_setup(proof))]))
    if note_lines := list_notes(proof):
        blocks.append(Fold("Caveats", [Items(note_lines)]))
    verdict, *rest = proof.verdict.rstrip(".").split(". ", 1)
    sentences: list[Block] = [Sentence(f"{words}.", "good" if proof.holds else "warn") for words in rest]
    return View(
        verdict,
        f"{make_title(proof)}; {proof.source}; begun {format_moment(proof.began_at)}",
        build_cards(proof),
        [*sentences, *blocks],
    )


def _build_seconds(proof: Proof) -> Fold | None:
    """Returns predicted and measured tps over time as a folded table; None without any."""
    series: dict[str, Sequence[float]] = {}
    panels = []
    for at, step in enumerate(proof.steps):
        parts = []
        for role, figures in (("predicted", step.predicted), ("measured", step.measured)):
            if figures is not None and figures.series:
                series[f"{role} {at}"] = figures.series
                parts.append((f"{role} {at}", f"{role} tps", ""))
        panels.append((describe_step(step), parts))
    length = max(map(len, series.values()), default=0)
    if length < 2:
        return None
    filled = {name: [*values, *[None] * (length - len(values))] for name, values in series.items()}
    rows = pl.DataFrame({"t_s": [float(second) for second in range(length)], **filled}, strict=False)
    return fold_of("The seconds as a table", rows, panels)


def build_table(proof: Proof, title: str = "") -> Table:
    """Returns predicted and measured as a table."""
    return Table(COLUMNS, list_rows(proof), title)


def build_cards(proof: Proof) -> list[Card]:
    """Returns the measured tps of the first three configurations that were predicted, each with
    its prediction."""
    figures = []
    for step in proof.steps:
        if step.measured is not None and step.predicted is not None:
            error = format_signed_percent(step.tps_error_percent)
            meaning = f"Predicted {format_number(step.predicted.tps)} tps; the error is {error}."
            holds = describe_verdict(proof, step) == "holds"
            figures.append(
                Card(
                    describe_step(step),
                    f"{format_number(step.measured.tps)} tps measured",
                    meaning,
                    "good" if holds else "warn",
                )
            )
    return figures[:3]
