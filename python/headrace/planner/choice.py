"""From a candidate to a Choice: the bill, the bottleneck, head-room, when balances run dry,
durability, doubts."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

import polars as pl

from headrace.base import caps, core
from headrace.base.core import translate_core_errors
from headrace.base.units import MIB, describe_span, write_clock
from headrace.planner.candidates import AURORA, LOCAL, Candidate, Directory, Family, Host, Need
from headrace.planner.database import DatabaseJudge, Doubt, Regret
from headrace.planner.demand import DemandJudge
from headrace.planner.goals import DATABASE, DEMAND, describe_miss, find_greatest_growth
from headrace.planner.market.durability import (
    compute_candidate_figures,
    find_copies,
    find_lowest_afr_percent,
    find_published_afr_percent,
    format_small_percent,
    list_managed_caveats,
)
from headrace.planner.result import Choice, Saving
from headrace.workload.unexplained import compute_interval

LOCAL_DISKS = (
    "Local disks: all data is gone when the instance stops, hibernates or terminates, or a disk fails. "
    "Keep a replica and backups elsewhere."
)
TWO_SNAPSHOTS = "Redo and binlog on a volume of their own: snapshots of both volumes must be taken together (multi-volume snapshot) to be consistent."
# A first day with full credits that does this many times the transactions of the others is worth a
# line.
FIRST_DAY_GAIN = 1.02
# More requests than that wait for no MySQL: its most connections (max_connections in MySQL's
# reference manual), each of which waits for one.
MOST_CLIENTS = 100_000
# A difference between the first day and the settled one that is worth a line: a point of balance, a
# millisecond, a tenth of a minute.
FIRST_DAY = {"lowest_balance_percent": 1.0, "p99_ms": 1.0, "throttled_min": 0.1}


Judge = TypeVar("Judge", DemandJudge, DatabaseJudge)


class Chooser(ABC, Generic[Judge]):
    """Makes choices of candidates, all under one judge: what choices have whatever is planned
    for."""

    def __init__(self, judge: Judge, directory: Directory, need: Need, extra_items: Sequence[dict], nodes: int) -> None:
        self.judge, self.directory, self.need = judge, directory, need
        self.extra_items, self.nodes = tuple(extra_items), nodes
        self.choices: dict[Candidate, Choice] = {}

    def choose(self, candidates: Sequence[Candidate], regrets: dict[Candidate, Regret] | None = None) -> list[Choice]:
        """Returns a choice of each candidate; the same object when it is asked for again."""
        new = [candidate for candidate in dict.fromkeys(candidates) if candidate not in self.choices]
        if new:
            self.choices.update(zip(new, self._make(new, regrets or {}), strict=True))
        return [self.choices[candidate] for candidate in candidates]

    def forget(self, candidate: Candidate) -> None:
        """Drops the cached choice of a candidate, so that `choose` makes it anew."""
        self.choices.pop(candidate, None)

    @abstractmethod
    def _make(self, candidates: Sequence[Candidate], regrets: dict[Candidate, Regret]) -> list[Choice]:
        """Makes a choice of each candidate; `regrets` of those that have one."""

    def _make_common_attributes(self, candidate: Candidate) -> dict:
        """Returns the attributes that a choice has in plans for demand and for databases alike."""
        data, log, place = candidate
        host = self.judge.hosts[place]
        facts, limits = self.directory.look_up(data, host.service), self.list_limits(candidate)
        items = [
            *(
                {**item, "usd": item["usd"] * self.nodes, "quantity": item["quantity"] * self.nodes}
                for item in self.judge.list_items(candidate)
            ),
            *self.extra_items,
        ]
        afr, _ = compute_candidate_figures(self.directory, candidate, host.service)
        return {
            "storage": data,
            "log_storage": log,
            "service": host.service,
            "instance": host.label,
            "family": facts.family.name,
            "volume_type": facts.family.volume_type,
            "layout": facts.family.layout,
            "members": facts.members,
            # Aurora's storage grows with the data.
            "usable_gib": float(
                min(facts.usable_gib, self.need.get_data_storage_gib(None) if facts.backing is None else math.inf)
            ),
            "log_gib": 0.0 if log is None else float(self.directory.look_up(log).storage.usable_gib),
            "items": tuple(items),
            "cost_usd_month": float(sum(item["usd"] for item in items)),
            "durability_afr_percent": afr,
            "durability": describe_durability(facts.family, facts.members, afr),
            "consistency": describe_consistency(limits[0]["consistency"] if limits else None),
            "persistent": all(limit["persistent"] for limit in limits),
            "vcpus": None if host.instance is None else host.instance["vcpus"],
            "memory_gib": None if host.instance is None else (host.instance["memory_mib"] or 0) / 1024,
            "caveats": tuple(self._list_caveats(facts.family, limits, items, host, log)),
        }

    @abstractmethod
    def compute_deliveries(self, candidates: Sequence[Candidate]) -> list[dict | None]:
        """Returns the figures that a chart shows of each candidate, by their names; None where they
        are not known."""

    def compute_saving(self, compared: Choice | None, chosen: Choice | None) -> Saving | None:
        """Returns what a choice saves against today's, USD a month, as planned and at equal usable
        space; None where one of the two is None."""
        if compared is None or chosen is None:
            return None
        gib = max(compared.usable_gib + compared.log_gib, chosen.usable_gib + chosen.log_gib)
        before, after = (self._compute_enlarged_usd(choice, gib) for choice in (compared, chosen))
        equal = None if before is None or after is None else before - after
        return Saving(compared.cost_usd_month - chosen.cost_usd_month, equal, gib)

    def _compute_enlarged_usd(self, choice: Choice, gib: float) -> float | None:
        """Returns a choice's bill, USD a month, with its data volumes enlarged until all of it
        holds `gib`; None where they cannot be."""
        if choice.usable_gib + choice.log_gib >= gib:
            return choice.cost_usd_month
        facts = self.directory.look_up(choice.storage)
        if choice.service != "ec2" or facts.backing is None:
            return None
        member = math.ceil(facts.storage.members[0].size_gib * (gib - choice.log_gib) / choice.usable_gib)
        if member > facts.family.max_gib or choice.volume_type == LOCAL:
            return None
        larger = str(facts.storage.with_(size_gib=member))
        million = self.judge.count_million_ios(larger)
        before, after = self.judge.prices.compute_volume_totals([choice.storage, larger], million)
        return None if math.isnan(after) else choice.cost_usd_month + (after - before) * self.nodes

    def list_limits(self, candidate: Candidate) -> list[core.VolumeLimits]:
        """Returns the limits of each data volume; none of Aurora's storage. Raises InputError for a
        storage that cannot be on that day or instance."""
        volumes = self.judge.get_backing_volumes(candidate)
        if volumes is None:
            return []
        with translate_core_errors():
            return core.storage_limits(volumes, self.judge.prices.as_of, self.judge.hosts[candidate[2]].name)

    def _list_missing_room(self, candidate: Candidate, usable_gib: float) -> list[str]:
        """Lists in words where a candidate holds fewer GiB than data and log need; empty where it
        holds them."""
        needed, missed = self.need.get_data_storage_gib(candidate[1]), []
        if usable_gib < needed:
            logs = f" ({self.need.log_gib:,} of them for redo and binary logs)" if needed > self.need.data_gib else ""
            missed.append(f"holds {usable_gib:,.0f} GiB, {needed:,} GiB needed{logs}")
        log_gib = None if candidate[1] is None else self.directory.look_up(candidate[1]).storage.usable_gib
        if log_gib is not None and log_gib < self.need.log_gib:
            missed.append(f"its log volume holds {log_gib:,} GiB, {self.need.log_gib:,} GiB needed")
        return missed

    def _list_caveats(
        self, family: Family, limits: list[core.VolumeLimits], items: list[dict], host: Host, log: str | None
    ) -> list[str]:
        """Lists doubts about a candidate: durability, prices and limits that are not confirmed,
        local disks, snapshots of two volumes; each once."""
        caveats = []
        if limits and not limits[0]["persistent"]:
            stays = " Redo and binlog on their own EBS volume stay, but alone they rebuild nothing." if log else ""
            caveats.append(LOCAL_DISKS + stays)
        elif log:
            caveats.append(TWO_SNAPSHOTS)
        if host.service != "ec2":
            caveats += list_managed_caveats(host.service)
        elif family.layout == "raid0":
            caveats.append("RAID 0: one lost volume loses the array.")
        caveats += [
            f"{limit['spec']['volume_type']} {caveat['field']}: {caveat['text']} ({caveat['source']})"
            for limit in limits
            for caveat in limit["caveats"]
        ]
        caveats += [
            f"Price of {item['item']}: seen {item['as_of']} ({item['source']})" for item in items if _is_doubtful(item)
        ]
        if host.instance is not None:
            caveats += [
                f"{host.name} {caveat['field']}: {caveat['text']} ({caveat['source']})"
                for caveat in host.instance["caveats"]
            ]
        caveats += [
            f"{family.volume_type} {name}: {param.get('note') or param['source']} ({param['source']})"
            for name in ("durability_afr_percent", "consistency")
            if (param := family.era.get(name)) and not param["confirmed"]
        ]
        if family.volume_type != AURORA:
            caveats += list_latency_doubts(family.volume_type, self.judge.prices.as_of)
        return list(dict.fromkeys(caveats))


class DemandChooser(Chooser[DemandJudge]):
    """Choices of plans for demand: what is the bottleneck, when balances run dry, how far demand
    may grow."""

    def _make(self, candidates: Sequence[Candidate], regrets: dict[Candidate, Regret]) -> list[Choice]:
        """Simulates candidates under the demand, finds their head-room, and makes a choice of
        each."""
        columns = self.judge.run(candidates, prune=False)
        rows = [{name: _convert_cell(column[i]) for name, column in columns.items()} for i in range(len(candidates))]
        headrooms = self._find_headrooms(candidates, rows)
        return [
            self._make_choice(candidate, row, headroom)
            for candidate, row, headroom in zip(candidates, rows, headrooms, strict=True)
        ]

    def _make_choice(self, candidate: Candidate, row: dict, headroom: float | None) -> Choice:
        """Makes a choice from a candidate's simulated figures (`row`); `headroom`: percent, None
        where it was not looked for."""
        common, limits = self._make_common_attributes(candidate), self.list_limits(candidate)[0]
        metrics = {name: self._limit_metric(name, row.get(name)) for name in DEMAND} | {
            "headroom_percent": headroom,
            "cost_usd_month": common["cost_usd_month"],
        }
        asks = self._describe_overload(candidate, limits, row)
        misses = self._list_missing_room(candidate, common["usable_gib"]) + self._list_missed_goals(metrics, asks)
        misses += self.judge.refuted.get(candidate, ())
        return Choice(
            **common,
            metrics=metrics,
            asks=asks,
            meets_goals=not misses,
            misses=tuple(misses),
            binds=self._find_bottleneck(candidate, limits),
            headroom_percent=headroom,
            runs_dry=self._find_credit_end(candidate, row),
            first_day=_find_first_day(row, metrics),
        )

    def _limit_metric(self, name: str, value: float | None) -> float | None:
        """Limits a latency or wait to the length of the recording, beyond which only a backlog
        comes that is carried from one repetition to the next; other metrics stay as they are."""
        seconds_in = {"ms": 1e-3, "s": 1.0}.get(DEMAND[name].unit)
        if value is None or seconds_in is None:
            return value
        return min(value, self.judge.demand.totals["seconds"] / seconds_in)

    def _list_missed_goals(self, metrics: dict, asks: dict | None) -> list[str]:
        """Lists in words the goals that a choice misses. `asks`: how far the demand is above the
        limit, which takes the place of the waits that follow from it."""
        # Head-room that was not looked for, because another goal fails already, is not one more
        # miss.
        goals = [
            goal
            for goal in self.judge.goals
            if goal.about.kind != "headroom" or metrics["headroom_percent"] is not None
        ]
        missed = [goal for goal in goals if not goal.is_met(metrics[goal.metric])]
        if asks is None:
            return [describe_miss(goal, metrics[goal.metric]) for goal in missed]
        # Waits and queues that no client could make are told by what makes them.
        others = [goal for goal in missed if goal.about.unit not in ("ms", "s", "requests")]
        return [asks["words"], *(describe_miss(goal, metrics[goal.metric]) for goal in others)]

    def _describe_overload(self, candidate: Candidate, limits: core.VolumeLimits, row: dict) -> dict | None:
        """Returns `Choice.asks`: by how much the demand is above the limit of a storage, where the
        queue that follows is longer than clients could make it; None elsewhere."""
        [overload] = self.judge.compute_overloads([candidate])
        never = overload is not None and overload > 1
        if not never and (row["peak_queue"] or 0.0) <= MOST_CLIENTS:
            return None
        entry = max(self.list_utilisations(candidate, limits, sustained=never), key=lambda limit: limit["utilisation"])
        if entry["utilisation"] <= 1:
            return None
        figures = f"{entry['asked']:,.0f} against {entry['allowed']:,.0f} {entry['unit']}"
        times = f"{entry['utilisation']:.2g} x"
        words = (
            f"never catches up: mean demand {times} the sustained limit ({figures})"
            if never
            else f"demand {times} the limit {self.describe_moment(entry['at_s'])} ({figures})"
        )
        names = ("asked", "allowed", "unit")
        return {"ratio": entry["utilisation"], "never": never, "words": words} | {name: entry[name] for name in names}

    def list_utilisations(self, candidate: Candidate, limits: core.VolumeLimits, sustained: bool = False) -> list[dict]:
        """Lists each limit with the highest demand on it: `cap`, `asked`, `allowed` (one volume, or
        all on the instance), `unit`, `utilisation`, `at_s`. Limits that burst are taken at their
        burst; `sustained`: at their baseline, against the mean demand."""
        host, volumes = self.judge.hosts[candidate[2]], self.judge.get_backing_volumes(candidate)
        facts, instance = self.directory.look_up(candidate[0], host.service), host.instance
        together = self.judge.demand.compute_volume_demand(volumes)
        volume = self.judge.demand.make_member_demand(volumes, facts.members)
        hdd, burst = limits["random_charges_full_unit"], limits["io_burst"]
        most = limits["iops"] if burst is None or sustained else burst["iops"]
        byte_burst = limits["byte_burst"]
        bytes_most = byte_burst["baseline_bytes_s"] if byte_burst and sustained else limits["throughput_bytes_s"]
        if limits["reads"] is not None:
            # A local disk reads besides. The share of both together is at most the busier one's.
            most, bytes_most = most + limits["reads"]["iops"], bytes_most + limits["reads"]["throughput_bytes_s"]
        demands: list[tuple[str, pl.DataFrame, str, float, str]] = (
            [] if hdd else [("volume-iops", volume, "iops", most, "IOPS")]
        )
        # st1 and sc1 charge a random request of any size a whole MiB, so what is asked of their
        # throughput is not what is transferred.
        charged = "MiB/s charged (1 MiB a random request)" if hdd else "MiB/s"
        demands.append(("volume-throughput", volume, "hdd_mib_s" if hdd else "mib_s", bytes_most / MIB, charged))
        if instance is not None and facts.family.volume_type != "instance-store":
            iops = instance["max_iops"] or instance["baseline_iops"]
            bytes_s = instance["max_bytes_s"] or instance["baseline_bytes_s"]
            if sustained:
                iops, bytes_s = instance["baseline_iops"] or iops, instance["baseline_bytes_s"] or bytes_s
            demands += [("instance-iops", together, "iops", iops, "IOPS")] if iops else []
            demands += [("instance-throughput", together, "mib_s", bytes_s / MIB, "MiB/s")] if bytes_s else []
        utilisations = []
        for cap, frame, column, allowed, unit in demands:
            at = frame[column].arg_max() or 0
            rate = float(frame[column][at])
            if sustained:
                seconds = self.judge.demand.totals["seconds"]
                rate = float((frame[column] * frame["duration_s"]).sum()) / seconds
            share = rate / allowed if allowed else 0.0
            entry = {"cap": cap, "asked": rate, "allowed": allowed, "unit": unit, "utilisation": share}
            utilisations.append(entry | {"at_s": frame["t_s"][at]})
        return utilisations

    def _find_bottleneck(self, candidate: Candidate, limits: core.VolumeLimits) -> dict:
        """Returns the bottleneck: the limit that requests waited for longest (`throttled_s`), else
        the one nearest to its demand; figures as of `list_utilisations`, with `words` and
        `short`."""
        used = self.list_utilisations(candidate, limits)
        nearest = max(used, key=lambda entry: entry["utilisation"])
        waited = [(seconds, cap) for cap, seconds in self.simulate_demand(candidate)["throttled_by_s"] if seconds > 0]
        if not waited:
            words = (
                f"nothing; nearest is {caps.describe_cap(nearest['cap'])}: {nearest['asked']:,.0f} of {nearest['allowed']:,.0f} {nearest['unit']} "
                f"({100 * nearest['utilisation']:.0f} %) {self.describe_moment(nearest['at_s'])}"
            )
            short = f"none; {caps.label_cap(nearest['cap'])} {100 * nearest['utilisation']:.0f} % {self.describe_moment(nearest['at_s'])}"
            return {**nearest, "throttled_s": 0.0, "words": words, "short": short}
        seconds, cap = max(waited)
        entry = next((entry for entry in used if entry["cap"] == cap), {**nearest, "cap": cap})
        words = f"{caps.describe_cap(cap)}, for {describe_span(max(1, round(seconds)))}"
        if entry["utilisation"] > 1 and entry["cap"] in (
            "volume-iops",
            "volume-throughput",
            "instance-iops",
            "instance-throughput",
        ):
            words += f": {entry['asked']:,.0f} {entry['unit']} demanded {self.describe_moment(entry['at_s'])}, {entry['allowed']:,.0f} allowed"
        short = f"{caps.label_cap(cap)}, for {describe_span(max(1, round(seconds)))}"
        return {**entry, "throttled_s": seconds, "words": words, "short": short}

    def simulate_demand(self, candidate: Candidate) -> core.Summary:
        """Simulates the planned demand on a candidate and returns the summary of the run."""
        judge = self.judge
        with translate_core_errors():
            return core.simulate(
                judge.get_backing_volumes(candidate),
                judge.demand.scale_load(1.0),
                form="interval",
                interval_s=judge.demand.longest_point_s,
                instance=judge.hosts[candidate[2]].name,
                as_of=judge.prices.as_of,
                start_balance_percent=judge.start_balance,
                cycle=judge.cycle,
            )["summary"]

    def describe_moment(self, t_s: float) -> str:
        """Writes a time in words: `at 09:42`, or `3 h 5 min after the start` where the workload has
        no clock."""
        clock = write_clock(self.judge.demand.workload.source.get("clock_start"), t_s)
        return f"at {clock}" if clock else f"{describe_span(round(t_s))} after the start"

    def _find_credit_end(self, candidate: Candidate, row: dict) -> dict | None:
        """Says when credits end: for good, where each repetition of the recording loses some; else
        the times of the settled day."""
        span_s = self.judge.demand.totals["seconds"]
        lost, after_s = row.get("loses_percent_per_cycle") or 0.0, row.get("dry_after_s")
        if lost > 0 or (row.get("settled") == 0 and self._has_credits(candidate)):
            each = "a day" if abs(span_s - 86_400) < 1 else f"each {describe_span(round(span_s))}"
            words = (
                f"loses {lost:.3g} % of its credits {each}" if 0 < lost <= 100 else "spends more credits than come back"
            )
            if after_s is not None and not math.isnan(after_s):
                day = int(after_s // 86_400)
                words += (
                    f"; dry on day {day + 1}, {self.describe_moment(after_s % span_s)}"
                    if span_s >= 86_400
                    else f"; dry after {describe_span(round(after_s))}"
                )
            return {"at_s": after_s, "lost_percent_per_cycle": lost, "words": words}
        if (row.get("credits_empty_s") or 0) > 0:
            at_s, empty_s, what = row["credits_empty_at_s"], row["credits_empty_s"], "credits empty"
        elif (row.get("instance_empty_s") or 0) > 0:
            at_s, empty_s = row["instance_empty_at_s"], row["instance_empty_s"]
            what = f"{self.judge.hosts[candidate[2]].name}'s EBS burst bucket empty"
        else:
            return None
        return {
            "at_s": at_s,
            "empty_s": empty_s,
            "words": f"{what} {self.describe_moment(at_s)}, {describe_span(max(1, round(empty_s)))} in all",
        }

    def _has_credits(self, candidate: Candidate) -> bool:
        """Says whether a volume of a candidate, or its instance, bursts."""
        instance = self.judge.hosts[candidate[2]].instance
        bursts = any(limit["io_burst"] or limit["byte_burst"] for limit in self.list_limits(candidate))
        return bursts or bool(instance and instance["burst_seconds"])

    def compute_deliveries(self, candidates: Sequence[Candidate]) -> list[dict | None]:
        """Returns IOPS, p99 in ms, throttled minutes and percent delivered of each candidate, and
        whether it meets the goals; None where it could not be simulated."""
        columns, meets = self.judge.run(candidates, prune=False), self.judge.performs(candidates)
        figures_of_each: list[dict | None] = []
        for place, meets_goals in enumerate(meets):
            iops, p99, throttled, unserved = (
                float(columns[name][place])
                for name in ("delivered_iops", "p99_ms", "throttled_min", "unserved_percent")
            )
            figures = {
                "delivered_iops": iops,
                "p99_ms": self._limit_metric("p99_ms", p99),
                "throttled_min": throttled,
                "delivered_percent": 100.0 - unserved,
            }
            figures_of_each.append(None if math.isnan(p99) else figures | {"meets_goals": meets_goals})
        return figures_of_each

    def _find_headrooms(self, candidates: Sequence[Candidate], rows: Sequence[dict]) -> list[float | None]:
        """Finds the highest growth of demand, percent up to 400, at which the goals on performance
        hold and nothing is throttled; None where they fail now, 0 while something is throttled."""

        def holds_at(some: list[int], factor: float) -> list[bool]:
            free = [factor == 1.0 or not rows[i]["throttled_s"] for i in some]
            meets = self.judge.holds_at([candidates[i] for i in some], factor)
            return [unthrottled and other for unthrottled, other in zip(free, meets, strict=True)]

        return find_greatest_growth(len(candidates), holds_at, self.judge.goals)


class DatabaseChooser(Chooser[DatabaseJudge]):
    """Choices of plans for databases: transactions, and how sure they are."""

    def _make(self, candidates: Sequence[Candidate], regrets: dict[Candidate, Regret]) -> list[Choice]:
        """Finds the head-room of candidates under the database, and makes a choice of each."""
        headrooms = find_greatest_growth(
            len(candidates),
            lambda some, factor: self.judge.holds_at([candidates[i] for i in some], factor),
            self.judge.goals,
        )
        return self._make_with_headrooms(candidates, headrooms, regrets)

    def _make_with_headrooms(
        self, candidates: Sequence[Candidate], headrooms: Sequence[float | None], regrets: dict[Candidate, Regret]
    ) -> list[Choice]:
        """Makes a choice of each candidate, given their head-rooms in percent (None: a goal
        fails)."""
        columns, doubts = self.judge.run_ungrown(candidates), self.judge.scenarios.compute_doubts(candidates)
        [first] = self.judge.run_in([self.judge.core], [1.0], candidates, names=("tps_mean", "dry_at_s"), first=True)
        columns |= {"first_tps": first["tps_mean"], "dry_at_s": first["dry_at_s"]}
        rows = [{name: _convert_cell(column[i]) for name, column in columns.items()} for i in range(len(candidates))]
        self.judge.counts.note(candidates, columns["status"].tolist())
        return [
            self._make_choice(candidate, row | {"headroom_percent": headroom}, doubt, regrets.get(candidate))
            for candidate, row, headroom, doubt in zip(candidates, rows, headrooms, doubts, strict=True)
        ]

    def _make_choice(self, candidate: Candidate, row: dict, doubt: Doubt, regret: Regret | None) -> Choice:
        """Makes a choice from a candidate's figures under the database (`row`), its doubt and its
        regret; None: not computed."""
        common, judge, host = self._make_common_attributes(candidate), self.judge, self.judge.hosts[candidate[2]]
        metrics = {name: row.get(name) for name in DATABASE} | {
            "cost_usd_month": common["cost_usd_month"],
            "durability_afr_percent": common["durability_afr_percent"],
            "consistency_percent": compute_candidate_figures(self.directory, candidate, host.service)[1],
            **{name: _convert_cell(value) for name, value in judge.get_survival(candidate).items()},
        }
        tps = metrics["tps"] or 0.0
        room, missed = self._list_missing_room(candidate, common["usable_gib"]), self._list_missed_goals(metrics, doubt)
        # Room for the logs follows from the goals, so it comes behind them.
        misses = room + missed if common["usable_gib"] < self.need.data_gib else missed + room
        # Arrivals bound an open load; only while a backlog is worked off is its rate higher.
        arriving = judge.conditions.arrivals_tps
        low, high = compute_interval(tps, doubt.spread)
        at_most = math.inf if arriving is None else max(tps, arriving)
        dry_at_s, first_tps = row["dry_at_s"], row["first_tps"]
        return Choice(
            **common,
            metrics=metrics,
            meets_goals=not misses,
            misses=tuple(misses),
            binds={"cap": row["cap"], "words": caps.describe_cap(row["cap"]), "short": caps.label_cap(row["cap"])},
            headroom_percent=metrics["headroom_percent"],
            runs_dry=None
            if dry_at_s is None
            else {
                "at_s": dry_at_s,
                "words": f"bursts until credits are gone after {describe_span(round(dry_at_s))}; judged at its baseline",
            },
            first_day=None if first_tps is None or first_tps < FIRST_DAY_GAIN * tps else {"tps": first_tps},
            engine=judge.workload.engine,
            cache_gib=host.cache_gib,
            tps_low=low,
            tps_high=min(at_most, high),
            probability=doubt.probability,
            goal_probabilities={goal: doubt.compute_goal_probability(goal) for goal in doubt.each},
            per_transaction={"reads": row["reads_per_tx"], "ios": row["ios_per_tx"], "mib": row["mib_per_tx"]},
            regret_expected_usd=None if regret is None else regret.expected,
            regret_worst_usd=None if regret is None else regret.worst,
            far_from_runs=tuple(self._list_extrapolations(host)),
        )

    def compute_deliveries(self, candidates: Sequence[Candidate]) -> list[dict | None]:
        """Returns the tps of each candidate with its interval and probability, and whether it meets
        the goals."""
        names = ("tps_low", "tps_high", "probability", "meets_goals")
        # A point of a chart shows no head-room: that which the goals ask for is enough to judge it.
        meets = self.judge.holds_at(candidates, self.judge.load_by)
        choices = self._make_with_headrooms(candidates, [self.judge.headroom if holds else None for holds in meets], {})
        return [{"tps": choice.metrics["tps"]} | {name: getattr(choice, name) for name in names} for choice in choices]

    def _list_extrapolations(self, host: Host) -> list[str]:
        """Lists in words where a host's cache, clients and processors lie outside those of the
        calibration runs; empty within them."""
        workload, threads = self.judge.workload, self.judge.conditions.threads
        vcpus = None if host.instance is None else host.instance["vcpus"]
        return workload.describe_extrapolation(
            cache_gib=host.cache_gib, threads=threads or workload.threads, vcpus=vcpus
        )

    def _list_missed_goals(self, metrics: dict, doubt: Doubt) -> list[str]:
        """Lists in words the goals that a choice misses or meets with less than the required
        probability."""
        misses, required = [], f"{100 * self.judge.confidence:.0f} % required"
        for goal in self.judge.goals:
            value = metrics[goal.metric]
            if goal.about.kind != "load":
                # Head-room that is not known, because another goal fails already, is not one more
                # miss.
                counts = goal.about.kind != "headroom" or value is not None
                misses += [describe_miss(goal, value)] if counts and not goal.is_met(value) else []
                continue
            chance = doubt.compute_goal_probability(str(goal))
            if not goal.is_met(value):
                misses.append(
                    f"{describe_miss(goal, value)} (probability {100 * chance:.0f} %{self._describe_headroom()})"
                )
            elif chance < self.judge.confidence:
                misses.append(f"{goal}{self._describe_headroom()} holds with {100 * chance:.0f} %, {required}")
        if not misses and doubt.probability < self.judge.confidence:
            misses.append(f"all goals together hold with {100 * doubt.probability:.0f} %, {required}")
        return misses

    def _describe_headroom(self) -> str:
        return f" with {self.judge.headroom:g} % head-room" if self.judge.headroom else ""


def _convert_cell(cell: object) -> object:
    """Converts a cell of a judge's column, which is text or a float of numpy: NaN, not known,
    becomes None, another float Python's own."""
    if isinstance(cell, float):  # numpy's is one
        return None if math.isnan(cell) else float(cell)
    return cell


def _find_first_day(row: dict, metrics: dict) -> dict | None:
    """Returns p99 in ms, lowest balance in percent and throttled minutes of a first day with full
    credits; None where they hardly differ, in either direction, from the settled day's. A report
    shows both days' figures and calls neither a gain."""
    first = {
        "p99_ms": row.get("first_worst_p99_ms"),
        "lowest_balance_percent": row.get("first_lowest_balance_percent"),
        "throttled_min": None if row.get("first_throttled_s") is None else row["first_throttled_s"] / 60,
    }
    pairs = [(first[name], metrics[name], least) for name, least in FIRST_DAY.items()]
    differs = any(
        early is not None and settled is not None and abs(early - settled) > least for early, settled, least in pairs
    )
    return first if differs else None


def _is_doubtful(item: dict) -> bool:
    return any(word in (item["as_of"] or "") for word in ("later than", "not confirmed", "undated")) and item["usd"] > 0


def list_latency_doubts(volume_type: str, as_of: str) -> list[str]:
    """Says what to know of the latency figures of a type where they are guessed or of low
    confidence."""
    in_force: dict[str, core.LatencyProfile] = {}
    for profile in core.latency_profiles():
        if profile["volume_type"] == volume_type and profile["from"] <= as_of:
            in_force[profile["op"]] = max(
                in_force.get(profile["op"], profile), profile, key=lambda entry: entry["from"]
            )
    doubtful = {op: profile for op, profile in in_force.items() if profile["confidence"] in ("low", "guess")}
    return [
        f"Latency of {volume_type} {op}s, confidence {profile['confidence']}: {profile['source']}"
        for op, profile in sorted(doubtful.items())
    ]


def describe_durability(family: Family, members: int, afr_percent: float | None) -> str:
    """Says what the data can expect of the storage in a year. `members`: volumes of the array;
    `afr_percent`: the chance that its data are lost."""
    copies = find_copies(family.service)
    if copies is not None and afr_percent is not None:
        return f"annual chance of losing the data {format_small_percent(afr_percent)}: {copies.words}"
    if family.volume_type == "instance-store":
        return "none: gone with the instance or a disk"
    highest = find_published_afr_percent(family.era)
    if highest is None or afr_percent is None:
        return "none published"
    lowest = find_lowest_afr_percent(family.era)
    published = f"{lowest:g}-{highest:g} %" if lowest != highest else f"{highest:g} %"
    if family.layout == "single":
        return f"annual failure rate {published}"
    reading = "up to" if family.layout == "raid0" else "at most (no lost member replaced all year)"
    return f"annual failure rate {published} a volume; the array of {members}: {reading} {afr_percent:.2g} %"


def describe_consistency(consistency: core.Consistency | None) -> str:
    """Says what the type promises of its performance."""
    if not consistency:
        return "none promised"
    return f"at least {consistency['at_least_percent']:g} % of its performance {consistency['of_time_percent']:g} % of the time"
