"""Replicas in words, tables and pages: the lag that is predicted, the cheapest replica that keeps
up, the parameters of an applier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import polars as pl

from headrace.base.core import describe_day
from headrace.base.encoding import pick_fields
from headrace.base.lazy import defer_imports
from headrace.base.packaged import read_rows
from headrace.report.charts.rows import TABLE_ROWS, group_by_clock
from headrace.report.view import Block, Card, Chart, Fold, Items, Sentence, Table, View, make_columns
from headrace.report.words import describe_storage, format_number, format_percent, format_span, list_row_labels
from headrace.workload.replica import ReplicaParameters

with defer_imports():
    from headrace.report.charts import predictions

if TYPE_CHECKING:
    from headrace.base import core
    from headrace.planner.replica import ReplicaPlan
    from headrace.simulation.replica import ReplicaOutcome, ReplicaPrediction
    from headrace.workload import TransactionWorkload


SCHEMA = "headrace-replica-prediction/1"
# Bottlenecks of an applier, by the core's names: their words, what lifts them, and whether they are
# limits, of which there could be more, or costs, of which there could be less.
BINDINGS = {row["binding"]: row for row in read_rows("headrace.report.replication", "bindings.csv")}
# The headline and the cards, filled in below and, while a slider of the page moves, in the browser
# (ui/static/replicas.js).
KEEPS_UP = "A replica on {storage} keeps up: at most {peak_lag} behind"
FALLS_BEHIND = "A replica on {storage} falls behind after {onset}, by up to {peak_lag}"
RATE = Card("The applier can do", "{applier_tps} tps", "The source does {source_tps} tps.")
LAG = Card("Most lag", "{peak_lag}", "Applied {catch_up} after the load.")
NOT_APPLIED = Card("Most lag", "{peak_lag}", "It is not applied within this run.")
CHANCE = Card(
    "Chance that it keeps up",
    "{keeps_up}",
    "Share of the databases and appliers within the calibration's doubt that keep up.",
)
LIKELY = 0.8  # a chance to keep up from which on a replica is a good one (chosen; as the planner's default)
# A share below this is not named.
LEAST_SHARE = 0.02


def describe_run(run: ReplicaPrediction) -> list[str]:
    """Returns sentences on a predicted replica: setup, warnings, rate, lag, limits, semi-sync."""
    summary, settings = run.summary, run.settings
    low, high = summary["low"], summary["high"]
    lines = [_describe_setup(run, settings)]
    lines += [f"WARNING: {text}" for text in run.warnings]
    rate = f"{format_number(summary['applier_tps'], 4)} tps" + _describe_interval(low, high, "applier_tps", " tps")
    lines.append(
        f"Source: {format_number(summary['source_tps'], 4)} tps over {format_span(summary['load_s'])}. The applier can do {rate}."
    )
    if summary["onset_s"] is None:
        lines.append(f"It keeps up: at most {format_lag(summary['peak_lag_s'])} behind.")
    else:
        ends = f"{format_lag(summary['lag_at_load_end_s'])}{_describe_interval(low, high, 'lag_at_load_end_s', ' s')} when the load ends"
        lines.append(f"It falls behind from {format_span(summary['onset_s'])} on: {ends}.")
        peak = f"{format_lag(summary['peak_lag_s'])}{_describe_interval(low, high, 'peak_lag_s', ' s')} at {format_span(summary['peak_at_s'])}"
        after = ", after the load has stopped" if summary["peak_at_s"] > summary["load_s"] else ""
        lines.append(f"Most lag: {peak}{after}.")
        catch_up_s = summary["catch_up_s"]
        backlog = f"{summary['backlog_at_load_end']:,.0f} transactions waiting when the load ends"
        later = "are not applied within this run"
        if catch_up_s is not None:
            later = f"are applied {format_span(catch_up_s)} later"
        lines.append(f"{backlog} {later}.")
    lines.append(describe_verdict(summary, settings))
    if summary["keeps_up"] is not None:
        lines.append(f"Chance that it keeps up: {format_percent(summary['keeps_up'])}.")
    if summary["semi_sync"] is not None:
        lines.append(describe_semi_sync(summary["semi_sync"], settings))
    return lines


def _describe_setup(run: ReplicaPrediction, settings: core.ReplicaSettings) -> str:
    """Returns a sentence on storage, server and cache (GiB) of a replica."""
    replica = run.replica
    places = [replica.storage]
    places += [f"logs on {replica.log_storage}"] if replica.log_storage else []
    places += [f"relay log on {replica.relay_storage}"] if replica.relay_storage else []
    server = describe_server(replica.release, settings, settings["workers"] or 0)
    return f"Replica on {', '.join(places)}: {server}, cache {format_number(run.cache_gib)} GiB; source on {run.source['storage']}; limits of {describe_day(run.as_of)}."


def describe_server(release: str, settings: core.ReplicaSettings, workers: int | None) -> str:
    """Returns version, mode, workers (None: they are to be chosen), order, and flushes of a commit
    in words."""
    is_single = settings["mode"] == "single" or (workers is not None and workers < 2)
    threads = "one thread" if is_single else "workers as below" if workers is None else f"{workers} workers"
    order = "" if settings["preserve_order"] else ", order of commits not kept"
    binlog = f"binary log, sync_binlog {settings['sync_binlog']}" if settings["log_bin"] else "no binary log"
    return f"{release}, {settings['mode']}, {threads}{order}, flush_log {settings['flush_log_at_trx_commit']}, {binlog}"


def _describe_remedy(binding: str, settings: core.ReplicaSettings) -> str:
    """Returns the remedies for a bottleneck of the applier, without those that `settings` have."""
    if binding != "flushes":
        return BINDINGS[binding]["remedy"]
    parts = []
    if settings["log_bin"]:
        parts.append("no binary log on the replica (it could not take over then)")
        parts += ["sync_binlog = 0"] if settings["sync_binlog"] else []
    if settings["flush_log_at_trx_commit"] == 1:
        parts.append("innodb_flush_log_at_trx_commit = 2 (a crash of its host loses up to a second of what it applied)")
    parts += [] if settings["mode"] == "single" else ["more workers that share a flush"]
    return "; ".join([*parts, "a volume with shorter latency"])


def describe_verdict(summary: ReplicaOutcome, settings: core.ReplicaSettings) -> str:
    """Returns sentences on what limits the applier, with shares of its cost, and on remedies."""
    shares = sorted(((share, name) for name, share in summary["shares"].items() if share >= LEAST_SHARE), reverse=True)
    parts = ", ".join(f"{name} {format_percent(share)}" for share, name in shares)
    binding = summary["binding"]
    text = f"Shares of the cost of a transaction: {parts}."
    if summary["dependency_lever"] >= LEAST_SHARE or summary["worker_lever"] >= LEAST_SHARE:
        more = {name: summary["if_halved"][name] for name in ("dependencies", "workers")}
        text += (
            f" {format_number(summary['width'], 3)} transactions are applied at once; twice as many allowed: "
            f"x {more['dependencies']:.2f}; twice the workers: x {more['workers']:.2f}."
        )
    if binding in summary["if_halved"]:
        half = "twice as much" if BINDINGS[binding]["lifted"] == "limit" else "half of that"
        text += f" Binding: {BINDINGS[binding]['words']}; {half} gives x {summary['if_halved'][binding]:.2f}: {_describe_remedy(binding, settings)}."
    return text


def describe_semi_sync(price: core.SemiSyncPrice, settings: core.ReplicaSettings) -> str:
    """Returns a sentence on the time that semi-sync adds to a commit of the source."""
    text = f"Semi-sync adds {format_number(price['added_ms'], 3)} ms to a commit"
    if price["relay_ms"] > 0.01:
        text += f", {format_number(price['relay_ms'], 3)} ms of it flushes of the relay log (sync_relay_log = {settings['sync_relay_log']:,})"
        text += f"; no more than {format_number(price['most_tps'], 3)} tps in all, since these flushes are not shared"
    return text + "."


def format_lag(value: float) -> str:
    """Returns a lag: 0.012 s, 3.7 s, 2 h."""
    return format_span(value) if value >= 120 else f"{format_number(value, 3)} s"


def _describe_interval(
    low: dict[str, float | None] | None, high: dict[str, float | None] | None, name: str, unit: str
) -> str:
    """Returns the 80 % interval of a figure in `unit`, in words; "" if it is not known. None at the
    upper end means that it lies beyond the run."""
    if low is None or high is None:
        return ""
    most = high[name]
    upper = "beyond this run" if most is None else f"{format_number(most, 3)}{unit}"
    return f" (80 % interval {format_number(low[name] or 0.0, 3)} to {upper})"


def build_table(run: ReplicaPrediction, most: int = TABLE_ROWS):
    """Returns a run as a table of at most `most` rows, each the means of a stretch on the clock."""
    rows = run.rows
    length = rows["t_s"][1] - rows["t_s"][0] if rows.height > 1 else 1.0
    parted, step_s = group_by_clock(rows, rows["t_s"][-1] + length, most=most)
    short = parted.group_by("group", maintain_order=True).agg(
        pl.col("t_s").first(),
        pl.col("source_tps", "applied_tps", "iops", "mib_s").mean(),
        pl.col("lag_s", "backlog").last(),
        pl.col("balance_percent").min(),
        pl.col("binding").mode().sort().first(),  # sorted: modes come in no order
    )
    labels = list_row_labels(short["t_s"].to_list())
    cells = []
    for row in short.iter_rows(named=True):
        balance = "" if row["balance_percent"] is None else f"{row['balance_percent']:.0f} %"
        figures = (
            format_number(row["source_tps"], 4),
            format_number(row["applied_tps"], 4),
            f"{row['backlog']:,.0f}",
            format_lag(row["lag_s"]),
        )
        device = (format_number(row["iops"], 4), format_number(row["mib_s"]), balance)
        cells.append((next(labels), *figures, *device, row["binding"]))
    titles = ("time", "source tps", "applied tps", "backlog", "lag", "IOPS", "MiB/s", "balance", "held back by")
    when = f"Time since the start. Each row: {format_span(step_s)}; backlog and lag at its end."
    heads = make_columns(titles, number=titles[:-1], key=titles[-1:], drop=("MiB/s", "balance"))
    return Table(heads, cells, when)


def build_document(run: ReplicaPrediction) -> dict[str, object]:
    """Returns the replica, its settings, summary and every row, for JSON."""
    replica = {name: value for name, value in vars(run.replica).items() if value is not None}
    return {
        "schema": SCHEMA,
        "workload": run.workload.name,
        "storage": run.source["storage"],
        "replica": replica | {"settings": run.settings, "cache_gib": run.cache_gib},
        **pick_fields(run, "as_of", "warnings", "rows"),
        "seed": run.source["seed"],
        "summary": {name: value for name, value in run.summary.items() if name != "drawn"},
        "caveats": run.workload.caveats,
    }


def build_view(run: ReplicaPrediction) -> View:
    """Returns the prediction as a view."""
    described = f"{make_title(run)} over time: lag, backlog, transactions of source and replica, I/Os"
    blocks: list[Block] = [Sentence(text, "warn") for text in run.warnings]
    blocks.append(Chart(lambda: predictions.draw_lag(run, make_title(run)), described))
    blocks.append(Sentence(describe_verdict(run.summary, run.settings)))
    blocks.append(Fold("The run as a table", [build_table(run)]))
    lines = [line for line in describe_run(run) if not line.startswith("WARNING: ")]
    blocks.append(Fold("The run in words", [Items(lines)]))
    where = f"{run.workload.name}, source on {run.source['storage']}; limits of {describe_day(run.as_of)}"
    return View(make_headline(run), where, list(_build_cards(run.summary)), blocks)


def make_title(run: ReplicaPrediction) -> str:
    """Returns the workload and the replica's storage in a line."""
    return f"{run.workload.name}: a replica on {run.replica.storage}"


def make_headline(run: ReplicaPrediction) -> str:
    """Returns a sentence on whether the replica keeps up."""
    sentence = KEEPS_UP if run.summary["onset_s"] is None else FALLS_BEHIND
    return sentence.format(storage=describe_storage(run.replica.storage), **_format_figures(run.summary))


def _format_figures(summary: ReplicaOutcome) -> dict[str, str]:
    """Returns the figures of headline and cards as texts."""
    return {
        "applier_tps": format_number(summary["applier_tps"], 4),
        "source_tps": format_number(summary["source_tps"], 4),
        "peak_lag": format_lag(summary["peak_lag_s"]),
        "onset": format_span(summary["onset_s"]),
        "catch_up": format_span(summary["catch_up_s"]),
        "keeps_up": format_percent(summary["keeps_up"]),
    }


def _build_cards(summary: ReplicaOutcome) -> Iterator[Card]:
    """Yields cards with the rate, the lag, and the chance that the replica keeps up."""
    figures, mark = _format_figures(summary), "good" if summary["onset_s"] is None else "warn"
    yield RATE.fill(figures, mark)
    yield (NOT_APPLIED if summary["catch_up_s"] is None else LAG).fill(figures, mark)
    if (chance := summary["keeps_up"]) is not None:
        yield CHANCE.fill(figures, "good" if chance >= LIKELY else "warn")


# --- the cheapest that keeps up -------------------------------------------------------------------


# Rows shown: the chosen one and the dearest of those that cost less (a screen).
SHOWN = 12


def describe_plan(plan: ReplicaPlan) -> list[str]:
    """Returns sentences on a plan: goal, replica, the cheapest that holds, the next cheaper one."""
    source = f"source on {plan.source} at {format_number(plan.source_tps, 4)} tps"
    lines = [
        f"Goal: lag at most {format_lag(plan.lag_s)} with probability {format_percent(plan.probability)}; {source}.",
        f"Judged over {format_number(plan.hours)} h of this load with every burst of the replica spent: the baselines of its "
        "volumes and of its instance.",
        f"The replica: {describe_server(plan.release, plan.settings, None)}.",
        _describe_room(plan),
    ]
    lines += [f"WARNING: {text}" for text in plan.warnings]
    if plan.chosen is None or plan.prediction is None:
        rate = max((choice.applier_tps for choice in plan.looked_at), default=0.0)
        lines.append(f"None of {len(plan.looked_at)} replicas holds; the fastest applies {format_number(rate, 4)} tps.")
        if plan.looked_at:
            fastest = max(plan.looked_at, key=lambda choice: choice.applier_tps)
            lines.append(
                f"It is held back by {BINDINGS[fastest.binding]['words']}. Name other --instances, or less lag on fewer writes."
            )
        return lines
    choice = plan.chosen
    relay = f", relay log on {choice.relay_storage}" if choice.relay_storage else ""
    lines.append(
        f"Cheapest: {choice.instance}/{choice.storage}{relay}, cache {format_number(choice.cache_gib)} GiB, {choice.workers or 'no'} workers: "
        f"{choice.usd_month:,.2f} USD a month in {plan.region}, prices of {plan.as_of}."
    )
    applies = f"It applies {format_number(choice.applier_tps, 4)} tps; most lag {format_lag(choice.peak_lag_s)}"
    lines.append(f"{applies}; the chance that it holds is {format_percent(choice.probability or 0.0)}.")
    lines.append(describe_verdict(plan.prediction.summary, plan.settings))
    cheaper = [
        (candidate, chance) for candidate in plan.looked_at[:-1] if (chance := candidate.probability) is not None
    ]
    if cheaper:
        last, chance = cheaper[-1]
        lines.append(
            f"The next cheaper that keeps up on average, {last.instance}/{last.storage} at {last.usd_month:,.2f} USD, "
            f"holds in {format_percent(chance)}."
        )
    return lines


def _describe_room(plan: ReplicaPlan) -> str:
    """Returns a sentence on the space of the replica's data volume: data, logs and free, in GiB."""
    logged = plan.logged
    logs = f"{logged.redo_gib:,} of redo log"
    if logged.days:
        logs += f", {logged.binlog_gib:,} of binary logs ({format_number(logged.days)} {'day' if logged.days == 1 else 'days'})"
    return (
        f"The replica's data volume holds {plan.needed_gib:,} GiB: {format_number(plan.data_gib)} of data, {logs}, and "
        f"{format_number(plan.free_percent)} % free."
    )


def build_plan_table(plan: ReplicaPlan):
    """Returns the last candidates by price: the dearest of the cheaper ones, and the chosen one."""
    cells = []
    for choice in plan.looked_at[-SHOWN:]:
        figures = (
            f"{choice.usd_month:,.2f}",
            format_number(choice.cache_gib),
            str(choice.workers),
            format_number(choice.applier_tps, 4),
        )
        holds = "" if choice.probability is None else format_percent(choice.probability)
        place = choice.storage + (f" + relay {choice.relay_storage}" if choice.relay_storage else "")
        cells.append((choice.instance, place, *figures, format_lag(choice.peak_lag_s), holds, choice.binding))
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
    heads = make_columns(titles, number=titles[2:8], key=(*titles[:2], titles[8]))
    return Table(heads, cells, title)


def build_frame(plan: ReplicaPlan) -> pl.DataFrame:
    """Returns all candidates, for CSV."""
    return pl.DataFrame([choice.to_dict() | {"chosen": choice is plan.chosen} for choice in plan.looked_at])


# --- an applier that was calibrated ---------------------------------------------------------------


APPLIER = make_columns(("parameter of the applier", "value", "known to", "from"), number=("value", "known to"))


def build_applier_table(workload: TransactionWorkload) -> Table:
    """Returns the parameters that were identified; all others are derived from the source's run."""
    replica = workload.replica or ReplicaParameters()
    rows = []
    for name, value in replica.values.items():
        spread = replica.spread.get(name)
        spread_text = "" if spread is None else f"+-{format_percent(spread)}"
        rows.append((name, format_number(value), spread_text, replica.origin.get(name, "")))
    if replica.written is not None:
        rows.append(
            ("written", ", ".join(format_number(share) for share in replica.written), "", "pages read by the replica")
        )
    return Table(APPLIER, rows)
