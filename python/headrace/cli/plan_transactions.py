"""What `headrace plan` does with a database: `model = "mysql"`."""

from __future__ import annotations

from pathlib import Path

import typer

from headrace.cli.common import Output, data, progress, say
from headrace.errors import InputError


def check_settings(load, own: dict, against: str | None) -> dict:
    """Settings of plans for transactions that were given (not None). Raises InputError where the workload is no database."""
    from headrace.workload import TransactionWorkload

    given = {name: value for name, value in own.items() if value is not None}
    if isinstance(load, TransactionWorkload):
        return given
    for name in [*given, *(["against"] if against else [])]:
        raise InputError(
            f"--{name.replace('_', '-')}", f"belongs to plans for transactions; {load.name} asks for I/Os", "headrace plan --help",
            "Give a database: a workload that `headrace calibrate` wrote, or sysbench-tpcc:...",
        )  # fmt: skip
    return given


def plan_database(load, other, settings: dict, output: Output, explain: bool, report: Path | None) -> None:
    """Plans one database, or two against each other, and prints the answer. Exit code 1 when nothing meets the goals."""
    from headrace.planner.transactions import plan_against, plan_transactions

    with progress("planning") as tick:
        if other is None:
            plans, words, whole = (plan_transactions(load, **settings, progress=tick),), None, None
        else:
            whole = plan_against(load, other, **settings, progress=tick)
            plans, words = whole.plans, whole.words
    if report is not None:
        from headrace.report.transaction_plan import write_plans

        write_plans(report, plans, words)
        say(f"report written to {report}")
    show(plans, words, whole, output, explain)
    if not any(plan.winners for plan in plans):
        raise typer.Exit(1)


def show(plans, words: str | None, whole, output: Output, explain: bool) -> None:
    """Prints the plans in the form asked for."""
    from headrace.report.output import as_csv, as_json
    from headrace.report.transaction_plan import frame_of

    if output is Output.json:
        answer = {"schema": "headrace-transaction-plan/1"} | (plans[0].to_dict() if whole is None else whole.to_dict())
        return data(as_json(answer))
    if output is Output.csv:
        import polars as pl

        frames = [frame_of(plan) for plan in plans]
        if whole is not None:
            frames = [frame.select(pl.lit(plan.engine).alias("engine"), pl.all()) for frame, plan in zip(frames, plans, strict=True)]
        return data(as_csv(pl.concat(frames, how="vertical_relaxed")))
    from headrace.report.tables import show as show_parts

    parts = [words, ""] if words else []
    for plan in plans:
        parts += _parts(plan, explain)
    show_parts(*parts)


NARROW = 160  # characters: below, the table leaves out what --explain tells


def _parts(plan, explain: bool) -> list:
    from headrace.report.tables import console, table
    from headrace.report.transaction_plan import RIGHT, VERDICTS, choice_table, found, title, verdict_rows

    columns, rows = choice_table(plan, narrow=console().width < NARROW)
    lost = [row for row in verdict_rows(plan) if row[1] != "wins"]
    parts = [*(line for line, _ in found(plan)), "", table(columns, rows, title=title(plan), right=RIGHT), ""]
    parts += [table(VERDICTS, lost, title="Why the others lost", right=("USD/month",)), ""] if lost else []
    parts += ["The arithmetic", *(f"  {line}" for line in plan.explain), ""] if explain else []
    parts += [f"note: {name} was left out: {why}" for name, why in plan.skipped_instances]
    return [*parts, *(f"note: {note}" for note in plan.caveats), ""]
