"""The cheapest replica that keeps up: in words and as a table."""

from __future__ import annotations

from typing import Any

import polars as pl

from headrace.report.replication.predicted import BINDINGS, seconds, server_in_words, verdict
from headrace.report.tables import table
from headrace.report.words import number, percent

# Rows shown: the chosen one and the dearest of those that cost less (a screen).
SHOWN = 12


def in_words(made: Any) -> list[str]:
    """The answer, a sentence a line."""
    source = f"source on {made.source} at {number(made.source_tps, 4)} tps"
    lines = [
        f"Goal: lag at most {seconds(made.lag_s)} with probability {percent(made.probability)}; {source}.",
        f"Judged over {number(made.hours)} h of this load with every burst of the replica spent: the baselines of its "
        "volumes and of its instance.",
        f"The replica: {server_in_words(made.release, {k: v for k, v in made.settings.items() if k != 'workers'})}.",
        _room(made),
    ]
    lines += [f"WARNING: {text}" for text in made.warnings]
    if made.chosen is None:
        rate = max((one.applier_tps for one in made.looked_at), default=0.0)
        lines.append(f"None of {len(made.looked_at)} replicas holds; the fastest applies {number(rate, 4)} tps.")
        if made.looked_at:
            fastest = max(made.looked_at, key=lambda one: one.applier_tps)
            lines.append(
                f"It is held back by {BINDINGS[fastest.binding]}. Name other --instances, or less lag on fewer writes."
            )
        return lines
    one = made.chosen
    relay = f", relay log on {one.relay_storage}" if one.relay_storage else ""
    lines.append(
        f"Cheapest: {one.instance}/{one.storage}{relay}, cache {number(one.cache_gib)} GiB, {one.workers or 'no'} workers: "
        f"{one.usd_month:,.2f} USD a month in {made.region}, prices of {made.as_of}."
    )
    applies = f"It applies {number(one.applier_tps, 4)} tps; most lag {seconds(one.peak_lag_s)}"
    lines.append(f"{applies}; the chance that it holds is {percent(one.probability)}.")
    lines.append(verdict(made.prediction.summary, made.settings))
    cheaper = [other for other in made.looked_at[:-1] if other.probability is not None]
    if cheaper:
        last = cheaper[-1]
        lines.append(
            f"The next cheaper that keeps up on average, {last.instance}/{last.storage} at {last.usd_month:,.2f} USD, "
            f"holds in {percent(last.probability)}."
        )
    return lines


def _room(made: Any) -> str:
    logged = made.logged
    logs = f"{logged.redo_gib:,} of redo log"
    if logged.days:
        logs += (
            f", {logged.binlog_gib:,} of binary logs ({number(logged.days)} {'day' if logged.days == 1 else 'days'})"
        )
    return (
        f"Its data volume holds {made.needed_gib:,} GiB: {number(made.data_gib)} of data, {logs}, and "
        f"{number(made.free_percent)} % free."
    )


def table_of(made: Any):
    """What was looked at, the dearest of the cheaper ones and the chosen one."""
    cells = []
    for one in made.looked_at[-SHOWN:]:
        figures = (f"{one.usd_month:,.2f}", number(one.cache_gib), str(one.workers), number(one.applier_tps, 4))
        holds = "" if one.probability is None else percent(one.probability)
        place = one.storage + (f" + relay {one.relay_storage}" if one.relay_storage else "")
        cells.append((one.instance, place, *figures, seconds(one.peak_lag_s), holds, one.binding))
    columns = (
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
    title = f"The last {len(cells)} of {len(made.looked_at)} looked at, by price."
    return table(columns, cells, title=title, right=columns[2:8], keep=columns)


def frame_of(made: Any) -> pl.DataFrame:
    """All that was looked at, for CSV."""
    return pl.DataFrame([one.to_dict() | {"chosen": one is made.chosen} for one in made.looked_at])
