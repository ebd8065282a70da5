"""The cheapest replica that keeps up: in words and as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from headrace.report.replication.predicted import BINDINGS, seconds, server_in_words, verdict
from headrace.report.view import Table, columns
from headrace.report.words import number, percent

if TYPE_CHECKING:
    from headrace.planner.replica import ReplicaPlan

# Rows shown: the chosen one and the dearest of those that cost less (a screen).
SHOWN = 12


def in_words(plan: ReplicaPlan) -> list[str]:
    """Returns the answer, a sentence a line."""
    source = f"source on {plan.source} at {number(plan.source_tps, 4)} tps"
    lines = [
        f"Goal: lag at most {seconds(plan.lag_s)} with probability {percent(plan.probability)}; {source}.",
        f"Judged over {number(plan.hours)} h of this load with every burst of the replica spent: the baselines of its "
        "volumes and of its instance.",
        f"The replica: {server_in_words(plan.release, plan.settings, None)}.",
        _room(plan),
    ]
    lines += [f"WARNING: {text}" for text in plan.warnings]
    if plan.chosen is None or plan.prediction is None:
        rate = max((choice.applier_tps for choice in plan.looked_at), default=0.0)
        lines.append(f"None of {len(plan.looked_at)} replicas holds; the fastest applies {number(rate, 4)} tps.")
        if plan.looked_at:
            fastest = max(plan.looked_at, key=lambda choice: choice.applier_tps)
            lines.append(
                f"It is held back by {BINDINGS[fastest.binding]}. Name other --instances, or less lag on fewer writes."
            )
        return lines
    choice = plan.chosen
    relay = f", relay log on {choice.relay_storage}" if choice.relay_storage else ""
    lines.append(
        f"Cheapest: {choice.instance}/{choice.storage}{relay}, cache {number(choice.cache_gib)} GiB, {choice.workers or 'no'} workers: "
        f"{choice.usd_month:,.2f} USD a month in {plan.region}, prices of {plan.as_of}."
    )
    applies = f"It applies {number(choice.applier_tps, 4)} tps; most lag {seconds(choice.peak_lag_s)}"
    lines.append(f"{applies}; the chance that it holds is {percent(choice.probability or 0.0)}.")
    lines.append(verdict(plan.prediction.summary, plan.settings))
    cheaper = [
        (candidate, chance) for candidate in plan.looked_at[:-1] if (chance := candidate.probability) is not None
    ]
    if cheaper:
        last, chance = cheaper[-1]
        lines.append(
            f"The next cheaper that keeps up on average, {last.instance}/{last.storage} at {last.usd_month:,.2f} USD, "
            f"holds in {percent(chance)}."
        )
    return lines


def _room(plan: ReplicaPlan) -> str:
    logged = plan.logged
    logs = f"{logged.redo_gib:,} of redo log"
    if logged.days:
        logs += (
            f", {logged.binlog_gib:,} of binary logs ({number(logged.days)} {'day' if logged.days == 1 else 'days'})"
        )
    return (
        f"The replica's data volume holds {plan.needed_gib:,} GiB: {number(plan.data_gib)} of data, {logs}, and "
        f"{number(plan.free_percent)} % free."
    )


def table_of(plan: ReplicaPlan):
    """Returns the last candidates by price: the dearest of the cheaper ones, and the chosen one."""
    cells = []
    for choice in plan.looked_at[-SHOWN:]:
        figures = (
            f"{choice.usd_month:,.2f}",
            number(choice.cache_gib),
            str(choice.workers),
            number(choice.applier_tps, 4),
        )
        holds = "" if choice.probability is None else percent(choice.probability)
        place = choice.storage + (f" + relay {choice.relay_storage}" if choice.relay_storage else "")
        cells.append((choice.instance, place, *figures, seconds(choice.peak_lag_s), holds, choice.binding))
    titles = (
        "instance",
        "storage",
        "USD/month",
        "cache GiB",
        "workers",
        "applies tps",
        "most lag",
        "holds",
        "held back by",
    )
    title = f"The last {len(cells)} of {len(plan.looked_at)} looked at, by price."
    heads = columns(titles, number=titles[2:8], key=(*titles[:2], titles[8]))
    return Table(heads, cells, title)


def frame_of(plan: ReplicaPlan) -> pl.DataFrame:
    """Returns all candidates, for CSV."""
    return pl.DataFrame([choice.to_dict() | {"chosen": choice is plan.chosen} for choice in plan.looked_at])
