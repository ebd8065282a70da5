"""From a row of the search to a Choice: the bill, what binds, head-room, when balances run dry, durability, doubts."""

from __future__ import annotations

from collections.abc import Sequence

from headrace import _core
from headrace.core import MIB
from headrace.errors import core_errors
from headrace.planner.candidates import Demand, Family
from headrace.planner.evaluate import HOURS_PER_MONTH, Batch, Evaluator, published_afr_percent
from headrace.planner.goals import MAX_HEADROOM_PERCENT, METRICS, Goal
from headrace.planner.result import Choice
from headrace.workload.describe import clock_at, span_in_words

CAP_WORDS = {
    "volume-iops": "the volume's IOPS",
    "volume-throughput": "the volume's MiB/s",
    "volume-credits": "the volume's burst credits",
    "instance-iops": "the instance's EBS IOPS",
    "instance-throughput": "the instance's EBS bandwidth",
    "instance-credits": "the instance's EBS burst bucket",
}
SECONDS_IN = {"ms": 1e-3, "s": 1.0, "min": 60.0}
LONG_S = 120.0


class Chooser:
    """Makes choices of rows, all against the demand of one evaluator."""

    def __init__(self, evaluator: Evaluator, size_gib: int) -> None:
        self.evaluator, self.size_gib = evaluator, size_gib
        self.demand: Demand = evaluator.demand
        self.workload = evaluator.demand.workload
        self.longest_point_s = float(self.workload.points["duration_s"].max())

    def choose(self, family: Family, rows: Sequence[dict], headroom: bool = True) -> list[Choice]:
        """A Choice of each row (of one family; dicts with the columns of Evaluator.run). `headroom` False leaves the head-room out."""
        rooms = self._headrooms(family, rows) if headroom else [None] * len(rows)
        return [self._choice(family, row, room) for row, room in zip(rows, rooms, strict=True)]

    def _choice(self, family: Family, row: dict, headroom: float | None) -> Choice:
        storage, members = row["storage"], row["members"]
        instance = None if row["instance"] is None else self.evaluator.instances[row["instance"]]
        name = None if instance is None else instance["instance_type"]
        with core_errors():
            limits = _core.storage_limits(storage, self.evaluator.as_of, name)
            usable = float(_core.parse_storage(storage)["usable_gib"])
            run = _core.simulate(
                storage, self.evaluator.load, form="interval", interval_s=self.longest_point_s, instance=name, as_of=self.evaluator.as_of,
                start_balance_percent=self.evaluator.start_balance,
            )  # fmt: skip
        items = self._items(family, storage, instance)
        metrics = {metric: row[metric] for metric in METRICS}
        if headroom is not None:
            metrics["headroom_percent"] = headroom
        misses = [miss_in_words(goal, metrics[goal.metric]) for goal in self.evaluator.goals if not goal.met_by(metrics[goal.metric])]
        if usable < self.size_gib:
            misses.insert(0, f"holds {usable:,.0f} GiB, {self.size_gib:,} GiB needed")
        return Choice(
            storage=storage, family=family.name, volume_type=family.volume_type, layout=family.layout, members=members,
            instance=name, usable_gib=usable, items=tuple(items), cost_usd_month=row["cost_usd_month"], metrics=metrics,
            meets_goals=not misses, misses=tuple(misses), binds=self._binds(family, members, limits[0], instance, run),
            headroom_percent=headroom, runs_dry=self._runs_dry(family, members, limits[0], instance, run["summary"]),
            durability_afr_percent=row["durability_afr_percent"],
            durability=durability_in_words(family, members, row["durability_afr_percent"]),
            consistency=consistency_in_words(limits[0]["consistency"]), persistent=bool(limits[0]["persistent"]),
            caveats=tuple(self._caveats(family, limits, items, instance)),
        )  # fmt: skip

    def _items(self, family: Family, storage: str, instance: dict | None) -> list[dict]:
        with core_errors():
            items = _core.monthly_cost(storage, self.evaluator.region, self.evaluator.as_of, self.evaluator.million_ios(family))
        if instance is not None:
            price = instance["price"]
            hourly = [(instance["instance_type"], price["usd"])]
            if price["ebs_optimized_surcharge_usd"]:
                hourly.append((f"{instance['instance_type']} EBS-optimized", price["ebs_optimized_surcharge_usd"]))
            items += [
                {"item": item, "quantity": HOURS_PER_MONTH, "unit": "hour", "unit_price_usd": usd, "usd": usd * HOURS_PER_MONTH,
                 "source": price["source"], "as_of": price["as_of"]} for item, usd in hourly
            ]  # fmt: skip
        return items

    # --- what binds ---------------------------------------------------------------------------------------------------

    def utilisations(self, family: Family, members: int, limits: dict, instance: dict | None) -> list[dict]:
        """Each limit with the highest demand on it: `cap`, `asked`, `allowed` (one volume, or all on the instance), `unit`,
        `utilisation`, `at_s`. Limits that burst are taken at their burst."""
        volume, together = self.demand.per_member(family.layout, members), self.demand.on_volumes(family.layout, members)
        hdd = limits["random_charges_full_unit"]
        throughput = "hdd_mib_s" if hdd else "mib_s"
        burst = limits["io_burst"]
        found = [] if hdd else [("volume-iops", volume, "iops", burst["iops"] if burst else limits["iops"], "IOPS")]
        # st1 and sc1 charge a random request of any size a whole MiB, so what is asked of their throughput is not what is transferred.
        charged = "MiB/s charged (1 MiB a random request)" if hdd else "MiB/s"
        found.append(("volume-throughput", volume, throughput, limits["throughput_bytes_s"] / MIB, charged))
        if instance is not None and family.volume_type != "instance-store":
            iops = instance["max_iops"] or instance["baseline_iops"]
            bytes_s = instance["max_bytes_s"] or instance["baseline_bytes_s"]
            found += [("instance-iops", together, "iops", iops, "IOPS")] if iops else []
            found += [("instance-throughput", together, "mib_s", bytes_s / MIB, "MiB/s")] if bytes_s else []
        answer = []
        for cap, frame, column, allowed, unit in found:
            at = frame[column].arg_max()
            asked = frame[column][at]
            share = asked / allowed if allowed else 0.0
            answer.append({"cap": cap, "asked": asked, "allowed": allowed, "unit": unit, "utilisation": share, "at_s": frame["t_s"][at]})
        return answer

    def _binds(self, family: Family, members: int, limits: dict, instance: dict | None, run: dict) -> dict:
        used = self.utilisations(family, members, limits, instance)
        nearest = max(used, key=lambda entry: entry["utilisation"])
        waited = [(seconds, cap) for cap, seconds in run["summary"]["throttled_by_s"] if seconds > 0]
        if not waited:
            words = (
                f"nothing; nearest is {CAP_WORDS[nearest['cap']]}: {nearest['asked']:,.0f} of {nearest['allowed']:,.0f} {nearest['unit']} "
                f"({nearest['utilisation']:.0%}) {self.moment(nearest['at_s'])}"
            )
            return {**nearest, "throttled_s": 0.0, "words": words}
        seconds, cap = max(waited)
        entry = next((entry for entry in used if entry["cap"] == cap), {**nearest, "cap": cap})
        words = f"{CAP_WORDS.get(cap, cap)}, for {span_in_words(max(1, round(seconds)))}"
        if entry["utilisation"] > 1 and entry["cap"] in ("volume-iops", "volume-throughput", "instance-iops", "instance-throughput"):
            words += f": {entry['asked']:,.0f} {entry['unit']} asked {self.moment(entry['at_s'])}, {entry['allowed']:,.0f} allowed"
        return {**entry, "throttled_s": seconds, "words": words}

    def moment(self, t_s: float) -> str:
        """`at 09:42`, or `3 h 5 min after the start` where the workload has no clock."""
        clock = clock_at(self.workload, t_s)
        return f"at {clock}" if clock else f"{span_in_words(round(t_s))} after the start"

    def _runs_dry(self, family: Family, members: int, limits: dict, instance: dict | None, summary: dict) -> dict | None:
        if summary["credits_empty_s"] > 0:
            at_s, empty_s = summary["credits_empty_at_s"], summary["credits_empty_s"]
            if limits["io_burst"]:
                column, falls_to, unit = "iops", members * limits["iops"], "IOPS"
            else:
                column, falls_to, unit = "hdd_mib_s", members * limits["byte_burst"]["baseline_bytes_s"] / MIB, "MiB/s"
            what = "credits empty"
        elif summary["instance_empty_s"] > 0:
            at_s, empty_s = summary["instance_empty_at_s"], summary["instance_empty_s"]
            column, falls_to, unit = "iops", instance["baseline_iops"], "IOPS"
            asked = self._asked(family, members, "mib_s", at_s)
            baseline_mib_s = (instance["baseline_bytes_s"] or 0) / MIB
            if not falls_to or asked / max(baseline_mib_s, 1e-9) > self._asked(family, members, "iops", at_s) / falls_to:
                column, falls_to, unit = "mib_s", baseline_mib_s, "MiB/s"
            what = f"{instance['instance_type']}'s EBS burst bucket empty"
        else:
            return None
        asked = self._asked(family, members, column, at_s)
        words = (
            f"{what} {self.moment(at_s)}, {span_in_words(max(1, round(empty_s)))} in all; then {falls_to:,.0f} {unit} "
            f"against {asked:,.0f} asked"
        )
        return {"empty_at_s": at_s, "empty_s": empty_s, "falls_to": falls_to, "asked": asked, "unit": unit, "words": words}

    def _asked(self, family: Family, members: int, column: str, t_s: float) -> float:
        frame = self.demand.on_volumes(family.layout, members)
        row = max(0, int(frame["t_s"].search_sorted(t_s, side="right")) - 1)
        return float(frame[column][row])

    # --- head-room ----------------------------------------------------------------------------------------------------

    def _headrooms(self, family: Family, rows: Sequence[dict]) -> list[float | None]:
        """Highest growth of demand, whole percent up to 400, at which the goals on performance hold; None where they fail now."""
        bounds = {index: [0, MAX_HEADROOM_PERCENT + 1] for index, row in enumerate(rows) if self._performs(row)}
        while True:
            asked: dict[int, list[int]] = {}
            for index, (low, high) in bounds.items():
                if high - low > 1:
                    asked.setdefault((low + high) // 2, []).append(index)
            if not asked:
                return [float(bounds[index][0]) if index in bounds else None for index in range(len(rows))]
            for percent, indices in asked.items():
                some = [rows[index] for index in indices]
                batch = Batch(family, *([row[name] for row in some] for name in ("storage", "members", "instance")))
                for index, holds in zip(indices, self.evaluator.holds_at(batch, 1 + percent / 100), strict=True):
                    bounds[index][0 if holds else 1] = percent

    def _performs(self, row: dict) -> bool:
        return row["status"] == "simulated" and all(
            goal.met_by(row[goal.metric]) for goal in self.evaluator.goals if goal.about.kind == "load"
        )

    # --- doubts -------------------------------------------------------------------------------------------------------

    def _caveats(self, family: Family, limits: list[dict], items: list[dict], instance: dict | None) -> list[str]:
        found = []
        if family.layout == "raid0":
            found.append("RAID 0: one lost volume loses the array.")
        if not limits[0]["persistent"]:
            found.append(
                "Local disks: the data is gone when the instance stops, hibernates or terminates, or a disk fails; keep a replica."
            )
        found += [
            f"{limit['spec']['volume_type']} {caveat['field']}: {caveat['text']} ({caveat['source']})"
            for limit in limits
            for caveat in limit["caveats"]
        ]
        found += [f"Price of {item['item']}: seen {item['as_of']} ({item['source']})" for item in items if _doubtful(item)]
        if instance is not None:
            found += [
                f"{instance['instance_type']} {caveat['field']}: {caveat['text']} ({caveat['source']})" for caveat in instance["caveats"]
            ]
            if instance["price"]["note"]:
                found.append(f"Price of {instance['instance_type']}: {instance['price']['note']}")
        found += [
            f"{family.volume_type} {name}: {param.get('note') or param['source']} ({param['source']})"
            for name in ("durability_afr_percent", "consistency") if (param := family.era.get(name)) and not param["confirmed"]
        ]  # fmt: skip
        found += latency_doubts(family.volume_type, self.evaluator.as_of)
        return list(dict.fromkeys(found))


def overload_of(chooser: Chooser, family: Family, row: dict) -> float | None:
    """Demand over what the candidate of a row sustains, where that is above 1."""
    return chooser.evaluator.overloads(Batch(family, [row["storage"]], [row["members"]], [row["instance"]]))[0]


def _doubtful(item: dict) -> bool:
    return any(word in item["as_of"] for word in ("later than", "not confirmed", "undated")) and item["usd"] > 0


def latency_doubts(volume_type: str, as_of: str) -> list[str]:
    """What to know of the latency figures of a type where they are guessed or of low confidence."""
    in_force: dict[str, dict] = {}
    for profile in _core.latency_profiles():
        if profile["volume_type"] == volume_type and profile["from"] <= as_of:
            in_force[profile["op"]] = max(in_force.get(profile["op"], profile), profile, key=lambda entry: entry["from"])
    doubtful = {op: profile for op, profile in in_force.items() if profile["confidence"] in ("low", "guess")}
    return [
        f"Latency of {volume_type} {op}s, confidence {profile['confidence']}: {profile['source']}"
        for op, profile in sorted(doubtful.items())
    ]


def miss_in_words(goal: Goal, value: float | None) -> str:
    """`p99 240 ms against 20`."""
    name = goal.metric.removesuffix("_" + goal.metric.rsplit("_", 1)[-1]) if goal.about.unit in ("ms", "min", "s", "%") else goal.metric
    name = {"cost_usd_month": "monthly cost"}.get(name, name.replace("_", " "))
    if value is None:
        return f"{name} not known, {goal.sign}{goal.limit:g} {goal.about.unit} asked"
    if goal.about.unit in SECONDS_IN and value * SECONDS_IN[goal.about.unit] >= LONG_S:
        # A backlog of hours reads better in hours.
        return f"{name} {span_in_words(round(value * SECONDS_IN[goal.about.unit]))} against {number(goal.limit)} {goal.about.unit}"
    return f"{name} {number(value)} {goal.about.unit} against {number(goal.limit)}"


def number(value: float) -> str:
    """A figure with three digits or so, thousands with commas."""
    if value == round(value) and abs(value) < 1e12 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:,.3g}"


def durability_in_words(family: Family, members: int, afr_percent: float | None) -> str:
    """What the data can expect of the storage in a year."""
    if family.volume_type == "instance-store":
        return "none: gone with the instance or a disk"
    one = published_afr_percent(family.era)
    if one is None or afr_percent is None:
        return "none published"
    lowest = family.era["durability_afr_percent"]["value"][0]
    published = f"{lowest:g}-{one:g} %" if lowest != one else f"{one:g} %"
    if family.layout == "single":
        return f"annual failure rate {published}"
    reading = "up to" if family.layout == "raid0" else "at most (no lost member replaced all year)"
    return f"annual failure rate {published} a volume; the array of {members}: {reading} {afr_percent:.2g} %"


def consistency_in_words(consistency: dict | None) -> str:
    """What the type promises of its performance."""
    if not consistency:
        return "none promised"
    return f"at least {consistency['at_least_percent']:g} % of its performance {consistency['of_time_percent']:g} % of the time"
