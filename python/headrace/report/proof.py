"""A proof as tables and a page: predicted beside measured. Reads results, runs nothing."""

from __future__ import annotations

from pathlib import Path

from headrace.report.charts import predictions
from headrace.report.html import Page, write_page
from headrace.report.words import latency, number

COLUMNS = (
    "configuration",
    "as it is run here",
    "cache",
    "clients",
    "tps predicted",
    "80 %",
    "tps measured",
    "error",
    "p95 predicted",
    "p95 measured",
    "p95 error",
    "verdict",
)
RIGHT = (
    "cache",
    "clients",
    "tps predicted",
    "80 %",
    "tps measured",
    "error",
    "p95 predicted",
    "p95 measured",
    "p95 error",
)
CSV_COLUMNS = (
    "role", "name", "storage_full", "storage", "log_storage", "cache_gib", "threads", "tps_predicted", "tps_low", "tps_high", "tps_measured", "tps_error_percent", "p95_ms_predicted",
    "p95_ms_measured", "p95_error_percent", "verdict",
)  # fmt: skip
STATES = {"complete": "", "interrupted": "interrupted", "broken": "broke off"}


def rows(proof) -> list[tuple[str, ...]]:
    """The cells of COLUMNS."""
    found = []
    for step in proof.steps:
        seen, said = step.measured, step.predicted
        interval = "" if said is None or said.tps_low is None else f"{number(said.tps_low)} to {number(said.tps_high)}"
        found.append(
            (
                name_of(step),
                step.configuration.place,
                f"{step.configuration.cache_gib * 1024:,.0f} MiB",
                str(step.configuration.threads),
                number(said.tps) if said else "calibrated on",
                interval,
                "not run" if seen is None else number(seen.tps),
                signed(step.tps_error_percent),
                latency(said.p95_ms) if said else "",
                "" if seen is None or seen.p95_ms is None else latency(seen.p95_ms),
                signed(step.p95_error_percent),
                verdict(step, proof.engine),
            )
        )
    return found


def name_of(step) -> str:
    """Role and storage before scaling."""
    return step.full.place if step.role == "given" else f"{step.role}: {step.full.place}"


def verdict(step, engine: str) -> str:
    """holds, off; or why there is none."""
    if step.measured is not None and step.measured.state != "complete":
        return STATES[step.measured.state]
    return {"holds": "holds", "off": "OFF", "machine": "machine too busy", "": ""}[step.verdict(engine)]


def signed(percent: float | None) -> str:
    """An error in percent with its sign; "" without one."""
    return "" if percent is None else f"{percent:+.1f} %"


def frame_of(proof):
    """A row a configuration, for CSV."""
    import polars as pl

    found = []
    for step in proof.steps:
        said, seen = step.predicted, step.measured
        found.append(
            (
                step.role,
                step.configuration.name,
                step.full.place,
                step.configuration.storage,
                step.configuration.log_storage,
                step.configuration.cache_gib,
                step.configuration.threads,
                said and said.tps,
                said and said.tps_low,
                said and said.tps_high,
                seen and seen.tps,
                step.tps_error_percent,
                said and said.p95_ms,
                seen and seen.p95_ms,
                step.p95_error_percent,
                step.verdict(proof.engine),
            )
        )
    return pl.DataFrame(found, schema=list(CSV_COLUMNS), orient="row", infer_schema_length=None)


def setup_lines(proof) -> list[str]:
    """What was run, at which scale, where predictions lie."""
    machine = proof.machine
    lines = [
        f"{proof.source}, on {proof.server}, {proof.engine}.",
        f"Load: {proof.load}",
        f"Scale: data, cache x {proof.data_scale:.3g}; IOPS, MiB/s, clients x {proof.rate_scale:.3g}. An empty cache at the start; {proof.warmup_s} s do not count, {proof.seconds} s do; seed {proof.seed}.",
        f"Machine: {machine.get('cpus')} processors ({machine.get('cpu') or '?'}), {machine.get('memory_gib')} GiB, Linux {machine.get('kernel')}.",
    ]
    if proof.predicted_at:
        lines.append(
            f"Predicted {proof.predicted_at}, before any of them was run: {proof.predictions_file}, SHA-256 {proof.predictions_sha256}."
        )
    return lines


def title(proof) -> str:
    """In a line."""
    return f"Proof {proof.name}: predicted and measured" + (f" ({proof.state})" if proof.state != "complete" else "")


def notes(proof) -> list[str]:
    """What a reader must know: of the proof, of predictions, of runs."""
    found = list(proof.notes)
    for step in proof.steps:
        for sentence in (
            *(step.predicted.warnings if step.predicted else ()),
            *(step.measured.findings if step.measured else ()),
        ):
            line = f"{step.configuration.name}: {sentence}"
            if line not in found:
                found.append(line)
    return found


def write_proof(path: Path, proof) -> None:
    """The page. Raises CouldNotRun."""
    made = Page(title(proof), f"{proof.source}; begun {proof.began_at}")
    made.paragraph(proof.verdict, "good" if proof.holds else "" if proof.holds is None else "warn")
    made.table(COLUMNS, rows(proof), RIGHT)
    for chart, described in predictions.of_proof(proof, name_of):
        made.chart(chart, described)
    made.heading("How it was done")
    made.items(setup_lines(proof))
    said = notes(proof)
    if said:
        made.heading("To know")
        made.items(said)
    write_page(path, made)
