"""From a candidate to a TransactionChoice: the bill, what binds, durability, doubts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from headrace import _core
from headrace.errors import core_errors
from headrace.planner.candidates import Family
from headrace.planner.choice import durability_in_words, latency_doubts, number
from headrace.planner.evaluate import HOURS_PER_MONTH, static_figures
from headrace.planner.goals import Goal
from headrace.planner.transactions.doubt import Z80, Doubt, Regret, Worlds
from headrace.planner.transactions.evaluate import Evaluator, Pick
from headrace.planner.transactions.result import TransactionChoice

BINDS = {
    "none": "nothing: what arrives is served",
    "clients": "the clients: they wait for their own I/O and locks, not for a cap",
    "cpu": "the processors",
    "volume-iops": "IOPS of the data volumes",
    "volume-throughput": "MiB/s of the data volumes",
    "volume-credits": "burst credits of the data volumes are gone: their baseline",
    "instance-iops": "EBS IOPS of the instance",
    "instance-throughput": "EBS bandwidth of the instance",
    "instance-credits": "the instance's EBS burst bucket is gone: its baseline",
}
LOCAL = "Local disks: all data is gone when the instance stops, hibernates or terminates, or a disk fails; a restart of the host's hardware is a stop. Keep a replica and backups elsewhere."


def binds_in_words(cap: str | None) -> str:
    """What binds, in words; log caps name the log volume."""
    cap = cap or "none"
    if cap.startswith("log-"):
        return BINDS.get(cap[4:], cap).replace("the data volumes", "the log volume")
    return BINDS.get(cap, cap)


def missed(goal: Goal, value: float) -> str:
    """`tps 211 against 300`."""
    unit = {"tps": "", "USD": " USD"}.get(goal.about.unit, f" {goal.about.unit}")
    name = {"tps_p5": "tps of the worst seconds", "usd_month": "monthly cost", "p95_ms": "p95", "backlog_s": "backlog"}.get(
        goal.metric, goal.metric
    )
    return f"{name} {number(value)}{unit} against {number(goal.limit)}"


class Chooser:
    """Makes choices of candidates, all under one evaluator."""

    def __init__(self, evaluator: Evaluator, worlds: Worlds, confidence: float, data_gib: int, logged_gib: int) -> None:
        self.evaluator, self.worlds, self.confidence = evaluator, worlds, confidence
        self.data_gib, self.logged_gib = data_gib, logged_gib

    def choose(self, picks: Sequence[tuple[Family, Pick]], regrets: dict[Pick, Regret] | None = None) -> list[TransactionChoice]:
        """A choice of each candidate."""
        if not picks:
            return []
        only = [pick for _, pick in picks]
        columns = self.evaluator.run(only, bounds=False)
        doubts, usd = self.worlds.of(only), self.evaluator.costs(only)
        rows = [{name: column[i] for name, column in columns.items()} for i in range(len(only))]
        known = regrets or {}
        return [
            self._choice(family, pick, row, doubt, float(cost), known.get(pick))
            for (family, pick), row, doubt, cost in zip(picks, rows, doubts, usd, strict=True)
        ]

    def _choice(self, family: Family, pick: Pick, row: dict, doubt: Doubt, usd: float, regret: Regret | None) -> TransactionChoice:
        data, log, place = pick
        host, conditions = self.evaluator.hosts[place], self.evaluator.conditions
        with core_errors():
            parsed = _core.parse_storage(data)
            limits = _core.storage_limits(data, conditions.as_of, host.name)
        usable, members = float(parsed["usable_gib"]), len(parsed["members"])
        metrics = {name: float(row[name]) for name in ("tps", "p95_ms", "tps_p5", "backlog_s")} | {"usd_month": usd}
        misses = self._misses(metrics, doubt)
        needed = self.data_gib + (self.logged_gib if log is None else 0)
        if usable < needed:
            misses.insert(0, f"holds {usable:,.0f} GiB, {needed:,} GiB needed")
        spread = doubt.spread
        afr, _ = static_figures(family, members)
        items = self._items(data, log, place)
        instance = host.instance
        return TransactionChoice(
            storage=data, log_storage=log, instance=host.name, family=family.name, volume_type=family.volume_type, layout=family.layout, members=members,
            vcpus=None if instance is None else instance["vcpus"], memory_gib=None if instance is None else instance["memory_mib"] / 1024, cache_gib=host.cache_gib,
            usable_gib=usable, items=tuple(items), cost_usd_month=usd, metrics=metrics, tps_low=metrics["tps"] * math.exp(-Z80 * spread),
            tps_high=self._at_most_arrivals(metrics["tps"] * math.exp(Z80 * spread)), probability=doubt.probability,
            goal_probabilities={goal: doubt.goal_probability(goal) for goal in doubt.each},
            meets_goals=not misses, misses=tuple(misses), binds={"cap": row["cap"], "words": binds_in_words(row["cap"])},
            per_transaction={"reads": float(row["reads_per_tx"]), "ios": float(row["ios_per_tx"]), "mib": float(row["mib_per_tx"])},
            runs_dry_at_s=None if math.isnan(row["dry_at_s"]) else float(row["dry_at_s"]),
            regret_expected_usd=None if regret is None else regret.expected, regret_worst_usd=None if regret is None else regret.worst,
            durability_afr_percent=afr, durability=durability_in_words(family, members, afr), persistent=bool(limits[0]["persistent"]),
            caveats=tuple(self._caveats(family, limits, items, host.instance, log)),
        )  # fmt: skip

    def _at_most_arrivals(self, tps: float) -> float:
        asked = self.evaluator.conditions.arrivals_tps
        return tps if asked is None else min(tps, asked)

    def _misses(self, metrics: dict, doubt: Doubt) -> list[str]:
        found = []
        for goal in self.evaluator.goals:
            value = metrics[goal.metric]
            if goal.about.kind != "load":
                found += [] if goal.met_by(value) else [missed(goal, value)]
            elif not goal.met_by(value):
                found.append(f"{missed(goal, value)} (probability {doubt.goal_probability(str(goal)):.0%})")
            elif doubt.goal_probability(str(goal)) < self.confidence:
                found.append(f"{goal} holds with {doubt.goal_probability(str(goal)):.0%}, {self.confidence:.0%} asked")
        if not found and doubt.probability < self.confidence:
            found.append(f"all goals together hold with {doubt.probability:.0%}, {self.confidence:.0%} asked")
        return found

    def _items(self, data: str, log: str | None, place: int) -> list[dict]:
        conditions, host = self.evaluator.conditions, self.evaluator.hosts[place]
        items = []
        with core_errors():
            for part, storage in (("data", data), ("log", log)):
                if storage is not None:
                    items += [{"part": part} | item for item in _core.monthly_cost(storage, conditions.region, conditions.as_of, 0.0)]
        if host.instance is not None:
            price = host.instance["price"]
            hourly = [(host.name, price["usd"])] + [
                (f"{host.name} EBS-optimized", extra) for extra in [price["ebs_optimized_surcharge_usd"]] if extra
            ]
            items = [
                {"part": "instance", "item": item, "quantity": HOURS_PER_MONTH, "unit": "hour", "unit_price_usd": usd, "usd": usd * HOURS_PER_MONTH,
                 "source": price["source"], "as_of": price["as_of"]} for item, usd in hourly
            ] + items  # fmt: skip
        return items

    def _caveats(self, family: Family, limits: list[dict], items: list[dict], instance: dict | None, log: str | None) -> list[str]:
        found = []
        if family.layout == "raid0" and limits[0]["persistent"]:
            found.append("RAID 0: one lost volume loses the array.")
        if not limits[0]["persistent"]:
            found.append(LOCAL + (" Redo and binlog on their own EBS volume stay, but alone they rebuild nothing." if log else ""))
        elif log:
            found.append(
                "Redo and binlog on a volume of their own: snapshots of both volumes must be taken together (multi-volume snapshot) to be consistent."
            )
        for limit in limits:
            found += [
                f"{limit['spec']['volume_type']} {caveat['field']}: {caveat['text']} ({caveat['source']})" for caveat in limit["caveats"]
            ]
        if instance is not None:
            name = instance["instance_type"]
            found += [f"{name} {caveat['field']}: {caveat['text']} ({caveat['source']})" for caveat in instance["caveats"]]
            found += [f"Price of {name}: {instance['price']['note']}"] if instance["price"]["note"] else []
        found += [
            f"Price of {item['item']}: seen {item['as_of']} ({item['source']})"
            for item in items
            if "not confirmed" in item["as_of"] and item["usd"] > 0
        ]
        found += latency_doubts(family.volume_type, self.evaluator.conditions.as_of)
        return list(dict.fromkeys(found))
