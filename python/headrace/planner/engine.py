"""The engine of every plan: candidates -> judge -> search -> choice -> reasons -> plan.

One engine for demand (I/Os) and for databases (transactions): they differ in the judge, in what a
host's memory means, and in that a database's goals hold with a probability. `PlanQuestion`
(question.py) is what was asked, checked; `PlanEngine` answers it.
"""

from __future__ import annotations

import contextlib
import gc
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.errors import Refusals
from headrace.planner.actions import describe_changes, describe_migration, list_actions, list_alarms
from headrace.planner.candidates import (
    DEFAULT_SHARE,
    LOCAL,
    Candidate,
    Directory,
    Host,
    Need,
    Space,
    list_families,
    list_hosts,
)
from headrace.planner.choice import DatabaseChooser, DemandChooser
from headrace.planner.database import DatabaseJudge, Regret, compute_regrets
from headrace.planner.demand import DemandJudge, PlannedDemand
from headrace.planner.goals import compute_needed_tps, get_budget
from headrace.planner.market.answer import build_services_part
from headrace.planner.market.services import list_managed_families, list_service_spaces
from headrace.planner.modifying import can_be_modified, list_modified_shapes
from headrace.planner.question import PlanQuestion
from headrace.planner.reasons import (
    compare_latency,
    explain,
    explain_nothing,
    judge_family,
    note_binlogs,
    recommend,
    recommend_staying,
)
from headrace.planner.replay import WinnerReplay
from headrace.planner.result import (
    Choice,
    Choices,
    FamilyVerdict,
    MarketSearch,
    NextSteps,
    Plan,
    PlanDoubts,
    Replayed,
)
from headrace.planner.search import FamilyResult, FamilySearch, Search, SpaceResult, rank
from headrace.workload import OpenWorkload, TransactionWorkload

refuse = Refusals("headrace plan --help")
CLOSEST_SHOWN = 5  # families; enough to see what is missed
# Shapes and points of a family that are searched along its axes for the nearest miss, if no
# candidate meets the goals.
NEAREST_SHAPES, NEAREST_POINTS = 4, 6
# Confidences at which the cheapest few are looked at again for their regret.
SURER, MADE_SURER = (0.9, 0.95, 0.99), 6
# Times that a recommendation is searched again above one that the replay refuted: a step is a
# percent or more, and the forms differ by some (docs/semantics.md).
MOST_STEPS_UP = 20
CURVES, CURVE_POINTS, CURVE_USD = 6, 10, 3.0
CURVES_OF_SERVICES = 8  # curves of several services: as many as there are colours


@dataclass(frozen=True)
class Selection:
    """Outcome of the choice, from which the plan is built; most fields are those of
    `result.Choices`. `least`: the choice of least expected regret; `undecided`: share of the
    scenarios, 0 to 1, in which nothing meets the goals."""

    searched: list[FamilyResult]
    winners: list[Choice]
    closest: list[Choice]
    recommended: Choice | None
    why: str
    compared: Choice | None
    in_place: Choice | None
    least: Choice | None
    undecided: float | None

    def list_explained(self) -> list[Choice]:
        """Lists the choices that are explained."""
        return [
            choice
            for choice in (self.recommended, *self.winners[:1], *self.closest[:1], self.compared)
            if choice is not None
        ]


class PlanEngine:
    """Answers one question. Equal questions have equal answers."""

    def __init__(self, question: PlanQuestion, progress: Callable[[float], None] | None = None) -> None:
        """Lists families, makes judge, chooser and search; nothing is searched yet. `progress` is
        called with the share done, 0 to 1."""
        self.question, self.progress = question, progress or (lambda done: None)
        self.directory = Directory(question.prices.as_of)
        # A copy: today's host is added to it where no candidate stands on it.
        self.hosts = list(question.hosts)
        self.families, self.verdicts = list_families(
            self.directory, question.prices, question.excluded, question.settings.max_volumes, self.hosts
        )
        if "ec2" not in question.settings.on:
            self.families, self.verdicts = [], []
        managed = [service for service in question.settings.on if service != "ec2"]
        load = question.workload
        is_database = isinstance(load, TransactionWorkload)
        self.is_mariadb = is_database and load.server.is_mariadb
        managed_families, managed_verdicts = list_managed_families(
            managed,
            self.directory,
            question.excluded,
            self.hosts,
            load.engine if is_database else "",
            self.is_mariadb,
        )
        self.families, self.verdicts = self.families + managed_families, self.verdicts + managed_verdicts
        self.judge = self._make_judge()
        self.chooser = self._make_chooser()
        # Low corners of spaces above what a replay refuted; None: the space is set aside.
        self.raised_corners: dict[tuple, tuple[int, int] | None] = {}
        # Storages of candidates that a replay refuted after MOST_STEPS_UP steps.
        self.given_up: list[str] = []
        # Cheapest modification of today's volumes that meets the goals, once it is searched.
        self.modification: SpaceResult | None = None
        self.replay = WinnerReplay(self.judge) if isinstance(self.judge, DemandJudge) else None
        # Costs that are equal for every candidate (snapshots), and those of a second node, do not
        # change which candidate is cheapest.
        self.fixed_usd = sum(item["usd"] for item in question.extra_items)
        affordable = (get_budget(question.goals) - self.fixed_usd) / question.settings.nodes
        self.search = FamilySearch(self.judge, self.hosts, question.need, affordable, question.today_family)
        # Why none of the candidates of a family that were tried can be, by the family's name.
        self.refusals: dict[str, str] = {}

    def _make_judge(self) -> DemandJudge | DatabaseJudge:
        """Makes the judge for the workload: of a demand in I/Os, or of a database in
        transactions."""
        question, load = self.question, self.question.workload
        if not isinstance(load, TransactionWorkload):
            demand, first = PlannedDemand(load), (question.settings.cycle, question.settings.start_balance)
            return DemandJudge(demand, question.goals, question.prices, self.hosts, self.directory, *first)
        conditions = question.conditions
        assert conditions is not None
        return DatabaseJudge(
            load,
            question.goals,
            question.prices,
            self.hosts,
            conditions,
            least_tps=compute_needed_tps(question.goals, conditions.threads, load.compute_least_responses()),
            confidence=question.settings.confidence,
            draws=question.settings.draws,
            seed=question.settings.seed,
        )

    def _make_chooser(self) -> DemandChooser | DatabaseChooser:
        """Makes the chooser for the judge."""
        judge, question = self.judge, self.question
        if isinstance(judge, DatabaseJudge):
            return DatabaseChooser(judge, self.directory, question.need, question.extra_items, question.settings.nodes)
        return DemandChooser(judge, self.directory, question.need, question.extra_items, question.settings.nodes)

    def answer(self) -> Plan:
        """Searches, chooses, replays the choice, and returns the plan."""
        with _pause_collection():
            searched = self.search.run(self.families, self.progress)
        today = self._find_today_candidate(searched)
        regret, undecided = self._compute_regrets(searched)
        selected = self._select_choices(searched, today, regret, undecided)
        # Candidates that pass in the interval form but fail in the per-I/O form are set aside, and
        # the search goes on above them; after many steps their whole space is, so that it ends.
        steps = 0
        while refuted := self._find_refuted(selected):
            steps += 1
            for candidate, replayed in refuted.items():
                self._search_above(searched, candidate, replayed.cap if steps <= MOST_STEPS_UP else None)
                self.given_up += [candidate[0]] if steps > MOST_STEPS_UP else []
            selected = self._select_choices(searched, today, regret, undecided)
        cheapest = selected.winners[0] if selected.winners else None
        nearest = {} if selected.winners else self._find_closest(searched)[1]
        self.verdicts += [self._judge_family(result, cheapest, nearest) for result in searched]
        return self._build_plan(selected)

    def _select_choices(
        self,
        searched: list[FamilyResult],
        today: Candidate | None,
        regret: dict[Candidate, Regret],
        undecided: float | None,
    ) -> Selection:
        """Chooses winners, closest, recommendation, today's storage and the modification of it from
        what was searched. `undecided`: share of the scenarios, 0 to 1, in which nothing meets the
        goals; None: not weighed."""
        passing = sorted((result for family_result in searched for result in family_result.passing), key=rank)
        winners = self._list_winners(passing, regret)
        pool = self._build_pool(passing, regret)
        recommended, why = recommend(
            pool, self.question.today_family, self._find_least_size(), self._compute_random_percent()
        )
        closest = self._find_closest(searched)[0] if not winners else []
        compared = None if today is None else self.chooser.choose([today])[0]
        least = self._find_least_regret(regret, bool(winners and winners[0].persistent))
        in_place = self._find_modification(today, compared)
        recommended, why = recommend_staying(recommended, why, compared, in_place)
        return Selection(searched, winners, closest, recommended, why, compared, in_place, least, undecided)

    def _find_refuted(self, selected: Selection) -> dict[Candidate, Replayed]:
        """Replays the recommendation and the cheapest winner, and returns those that miss a goal on
        latency there and were not refuted before; the judge then refutes them, and their choices
        are dropped."""
        if self.replay is None or not isinstance(self.judge, DemandJudge):
            return {}
        choices = [choice for choice in (selected.recommended, *selected.winners[:1]) if choice is not None]
        refuted: dict[Candidate, Replayed] = {}
        for candidate in dict.fromkeys(self.get_candidate(choice) for choice in choices):
            replayed = self.replay.replay(candidate)
            if replayed is not None and replayed.misses and candidate not in self.judge.refuted:
                self.judge.refute(candidate, replayed.misses)
                self.chooser.forget(candidate)
                refuted[candidate] = replayed
        return refuted

    def _search_above(self, searched: Sequence[FamilyResult], candidate: Candidate, cap: str | None) -> None:
        """Searches the spaces of a refuted candidate again, above it on the axis of the limit that
        requests waited for (`cap`; None: the spaces are set aside), and changes their results in
        `searched`."""
        if self.modification is not None and self.modification.candidate == candidate:
            self.raised_corners[_make_space_key(self.modification.space)] = _find_corner_above(self.modification, cap)
        affordable = self.search.affordable
        for family_result in searched:
            for result in [*family_result.guessed, *family_result.sure]:
                if result.best is None or result.candidate != candidate or not isinstance(self.judge, DemandJudge):
                    continue
                self.raised_corners[_make_space_key(result.space)] = above = _find_corner_above(result, cap)
                start = self._make_start(result.space)
                again = start
                if above is not None:
                    [again] = Search(self.judge, self.judge.performs, lambda space: affordable).run([start])
                result.low, result.best, result.usd, result.dear = again.low, again.best, again.usd, again.dear
                result.fails = above is None or again.fails

    def _make_start(self, space: Space) -> SpaceResult:
        """Returns the start of a search: a space from its low corner, or from that to which a
        replay raised it; of a space that was set aside the high corner alone."""
        (x, x_high), (y, y_high) = space.shape.x, space.shape.y
        low = self.raised_corners.get(_make_space_key(space), (x, y)) or (x_high, y_high)
        return SpaceResult(space, low, (x_high, y_high))

    # --- choosing ---------------------------------------------------------------------------------

    def _list_winners(self, passing: Sequence[SpaceResult], regret: dict) -> list[Choice]:
        """Returns the cheapest of each family and instance, in order, at most `top`."""
        firsts: dict[tuple[str, int], SpaceResult] = {}
        for result in passing:
            firsts.setdefault((result.space.family.name, result.space.host), result)
        return self.chooser.choose(
            [result.candidate for result in list(firsts.values())[: self.question.settings.top]], regret
        )

    def _find_least_size(self) -> tuple[float, int] | None:
        """Returns the least memory (GiB) and virtual CPUs of a recommended instance: today's, in a
        plan for demand, since with less of either the demand would be another. None in a plan for a
        database, whose judge simulates both, and where today's instance is not known."""
        today = self.question.today
        if today is None or today.instance is None or isinstance(self.judge, DatabaseJudge):
            return None
        with translate_core_errors():
            instance = core.instance(today.instance, self.question.prices.as_of)
        return instance["memory_mib"] / 1024, instance["vcpus"]

    def _compute_random_percent(self) -> float:
        """Returns how many of the requests are random, percent: all of a database's page reads."""
        return self.judge.demand.random_percent if isinstance(self.judge, DemandJudge) else 100.0

    def _build_pool(self, passing: Sequence[SpaceResult], regret: dict) -> list[Choice]:
        """Returns the choices of which one is recommended: the cheapest for each number of volumes,
        service, kind of volume type, and whether the instance is of today's family and size."""
        firsts: dict[tuple, SpaceResult] = {}
        least = self._find_least_size()
        for result in passing:
            family, host = result.space.family, self.hosts[result.space.host]
            size = None
            if host.instance is not None and least is not None:
                size = host.instance["memory_mib"] / 1024 >= least[0] and host.instance["vcpus"] >= least[1]
            like_today, kind = (self.search.is_of_today_family(result.space.host), size), family.volume_type
            slow = kind if kind in ("st1", "sc1", "standard") else ""
            firsts.setdefault((result.space.volumes, family.service, kind == LOCAL, slow, like_today), result)
        return self.chooser.choose([result.candidate for result in firsts.values()], regret)

    def _find_closest(self, searched: Sequence[FamilyResult]) -> tuple[list[Choice], dict[str, Choice]]:
        """Returns what comes nearest where nothing meets the goals, one choice of each family."""
        nearest = {
            result.family.name: choice for result in searched if (choice := self.find_nearest(result)) is not None
        }

        def rank_choice(choice: Choice) -> tuple:
            away = (-round(choice.probability or 0.0, 3), round(self._measure_distance(choice), 4))
            return (*away, choice.cost_usd_month, choice.place)

        return sorted(nearest.values(), key=rank_choice)[:CLOSEST_SHOWN], nearest

    def _measure_distance(self, choice: Choice) -> float:
        """Returns how far a choice misses the goals on anything but head-room, without unit: 0
        where all are met; sums `Goal.distance`."""
        # If no candidate works off the backlog, waits are as long as the recording, so the excess
        # of the demand ranks them.
        hopeless = 0.0 if choice.asks is None else math.log1p(choice.asks["ratio"])
        return hopeless + sum(
            float(goal.measure_distance(choice.metrics[goal.metric]))
            for goal in self.question.goals
            if goal.about.kind != "headroom"
        )

    def find_nearest(self, result: FamilyResult) -> Choice | None:
        """Returns the choice that misses the goals by least, of some candidates of a family; None
        where none of them is possible or priced, whose reason is then in `refusals`."""
        candidates = self._sample_candidates(result)
        if not candidates:
            return None
        usd = self.judge.compute_costs(candidates) * self.question.settings.nodes + self.fixed_usd
        columns = (
            self.judge.run(candidates, prune=False)
            if isinstance(self.judge, DemandJudge)
            else self.judge.run(candidates, bounds=False) | self.judge.compute_statics(candidates)
        )
        away = np.zeros(len(candidates))
        for goal in self.question.goals:
            if goal.about.kind in ("load", "static"):
                value = columns[goal.metric]
                if isinstance(self.judge, DatabaseJudge):
                    value = self.judge.without_headroom(goal, value)
                away += goal.measure_distance(value)
            elif goal.about.kind == "cost":
                away += goal.measure_distance(usd)
        possible = [i for i in range(len(candidates)) if not math.isnan(usd[i]) and columns["status"][i] != "invalid"]
        if not possible:
            ruled_out = next((why for why in columns["why"] if why), "")
            self.refusals[result.family.name] = ruled_out or "a price of what holds the data is not known"
            return None

        def rank_candidate(i: int) -> tuple:
            storage, log, place = candidates[i]
            return (round(float(away[i]), 2), usd[i], storage, log or "", place)

        return self.chooser.choose([candidates[min(possible, key=rank_candidate)]])[0]

    def _sample_candidates(self, result: FamilyResult) -> list[Candidate]:
        """Lists candidates of some shapes of a family, from the low to the high corner of each,
        from which the nearest miss is taken."""
        need, as_of = self.question.need, self.question.prices.as_of
        spaces = [guess.space for guess in result.guessed]
        # Goals that nothing reaches may ask for more binary logs than any volume holds: what comes
        # nearest then holds the data alone.
        for least in (need, Need(need.data_gib)):
            spaces = spaces or list_service_spaces(result.family, self.hosts, [None], least, as_of)
        if len(spaces) > NEAREST_SHAPES:
            spaces = [spaces[round(i * (len(spaces) - 1) / (NEAREST_SHAPES - 1))] for i in range(NEAREST_SHAPES)]
        candidates = []
        for space in spaces:
            (x, x_high), (y, y_high) = space.shape.x, space.shape.y
            for step in range(NEAREST_POINTS):
                share = step / (NEAREST_POINTS - 1)
                candidates.append(
                    space.make_candidate((round(x + share**2 * (x_high - x)), round(y + share**2 * (y_high - y))))
                )
        return list(dict.fromkeys(candidates))

    def _judge_family(self, result: FamilyResult, cheapest: Choice | None, nearest: dict[str, Choice]) -> FamilyVerdict:
        """Gives the verdict on a searched family, by its cheapest candidate that meets the goals,
        else by its nearest."""
        passing = result.passing
        if passing:
            best: Choice | None = self.chooser.choose([passing[0].candidate])[0]
        elif result.dear is not None and cheapest is not None:
            best = None
        else:
            best = nearest.get(result.family.name) or self.find_nearest(result)
        overload = None
        if best is not None and not best.meets_goals and isinstance(self.judge, DemandJudge):
            overload = self.judge.compute_overloads([self.get_candidate(best)])[0]
        refused, needed = self.refusals.get(result.family.name, ""), self.question.need.data_gib
        return judge_family(best, result.family, cheapest, overload, result.dear, needed, refused)

    def get_candidate(self, choice: Choice) -> Candidate:
        """Returns the candidate a choice was made of. Two hosts may be of one instance type:
        today's has the cache of its run."""
        places = [
            i for i, host in enumerate(self.hosts) if (host.service, host.label) == (choice.service, choice.instance)
        ]
        same = [i for i in places if choice.cache_gib is None or self.hosts[i].cache_gib == choice.cache_gib]
        return (choice.storage, choice.log_storage, (same or places)[0])

    def get_host(self, choice: Choice) -> Host:
        """Returns the host a choice stands on."""
        return self.hosts[self.get_candidate(choice)[2]]

    # --- today ------------------------------------------------------------------------------------

    def _find_today_candidate(self, searched: Sequence[FamilyResult]) -> Candidate | None:
        """Returns today's storage as a candidate: on its own instance where one is named, else on
        the cheapest winner's, else on the first; None where none is compared. Raises InputError
        where it is impossible or has no price."""
        today = self.question.today
        if today is None:
            return None
        if today.instance is not None:
            place = self._find_today_host(today.instance)
        else:
            own = [each.passing for each in searched if each.family.service == "ec2"]
            best = min((result for passing in own for result in passing), key=rank, default=None)
            first = next((i for i, host in enumerate(self.hosts) if host.service == "ec2"), None)
            if first is None:
                hint = "Name its instance too: r6i.xlarge/gp3:500."
                raise refuse.input(f"compare = {today}", "is storage on EC2, and --on names none", hint)
            place = first if best is None else best.space.host
        prices, host = self.question.prices, self.hosts[place]
        if LOCAL in str(today.data) and today.instance is None:
            hint = "Name it: i3.large/instance-store:442."
            raise refuse.input(f"compare = {today}", "local disks come with an instance", hint)
        volumes = [str(storage) for storage in (today.data, today.log) if storage is not None]
        with translate_core_errors():
            for storage in volumes:
                core.storage_limits(storage, prices.as_of, host.name)
            if host.name is not None:
                core.check_attachments(volumes, host.name, prices.as_of)
        for storage in volumes:
            prices.list_volume_items(storage, 0.0)  # refuses what has no price
        return (str(today.data), None if today.log is None else str(today.log), place)

    def _find_today_host(self, instance: str) -> int:
        """Returns the index of today's instance in `hosts`, to which it is added where it is not
        there; on the instance of the calibration runs it has their cache."""
        workload = self.question.workload
        share = None
        if isinstance(workload, TransactionWorkload):
            share = DEFAULT_SHARE if self.question.settings.cache_share is None else self.question.settings.cache_share
        today = list_hosts(instance, self.question.prices, share)[0][0]
        if isinstance(workload, TransactionWorkload) and workload.instance == instance:
            today = Host(today.instance, today.usd_month, workload.cache_gib, today.service)
        for place, host in enumerate(self.hosts):
            if (host.service, host.name, host.cache_gib) == (today.service, today.name, today.cache_gib):
                return place
        self.hosts.append(today)
        return len(self.hosts) - 1

    def _find_modification(self, today: Candidate | None, compared: Choice | None) -> Choice | None:
        """Returns the cheapest choice that today's volumes can be modified into: the same layout
        and number, nothing smaller, on today's instance with the cache a plan gives it; a log
        volume that is too small is enlarged. Sets `modification` to its result."""
        if today is None or compared is None:
            return None
        volumes, need = self.directory.look_up(today[0]).storage, self.question.need
        if not can_be_modified(volumes) or compared.usable_gib <= 0:
            return None
        log = None if today[1] is None else self.directory.look_up(today[1]).storage
        if log is not None and log.usable_gib < need.log_gib:
            least = math.ceil(log.members[0].size_gib * need.log_gib / log.usable_gib)
            log = log.with_(size_gib=self.directory.look_up(str(log)).family.compute_ordered_gib(least))
        place = max(
            (i for i, host in enumerate(self.hosts) if (host.service, host.label) == ("ec2", compared.instance)),
            key=lambda i: self.hosts[i].cache_gib,
        )
        gib = volumes.members[0].size_gib
        # Volumes that are large enough stay as they are.
        least = math.ceil(need.get_data_storage_gib(today[1]) * gib / compared.usable_gib)
        shapes = list_modified_shapes(self.families, compared.layout, compared.members, gib, least)
        spaces = [Space(shape, None if log is None else str(log), place) for shape in shapes]
        best = [math.inf]

        def note(cheaper: SpaceResult) -> None:
            best[0] = min(best[0], cheaper.usd)

        judged = self.judge.performs if isinstance(self.judge, DemandJudge) else self.judge.meets_with_confidence
        starts = [
            self._make_start(space)
            for space in spaces
            if self.raised_corners.get(_make_space_key(space), ()) is not None
        ]
        results = [
            result
            for result in Search(self.judge, judged, lambda space: best[0], note).run(starts)
            if result.best is not None
        ]
        self.modification = min(results, key=rank) if results else None
        return None if self.modification is None else self.chooser.choose([self.modification.candidate])[0]

    # --- doubt ------------------------------------------------------------------------------------

    def _compute_regrets(self, searched: Sequence[FamilyResult]) -> tuple[dict[Candidate, Regret], float | None]:
        """Returns the regrets, over all scenarios, of the candidates that meet the goals with the
        required confidence, and of the cheapest of them at higher ones; and the share of scenarios,
        0 to 1, in which nothing meets the goals (None: not weighed)."""
        judge = self.judge
        passing = sorted((result for family_result in searched for result in family_result.passing), key=rank)
        if not isinstance(judge, DatabaseJudge) or not passing:
            return {}, None
        candidates = [result.candidate for result in passing]
        for confidence in SURER:
            starts = [SpaceResult(result.space, result.low, result.high) for result in passing[:MADE_SURER]]
            search = Search(
                judge,
                lambda some, least=confidence: judge.meets_with_confidence(some, least),
                lambda space: self.search.affordable,
            )
            candidates += [result.candidate for result in search.run(starts) if result.best is not None]
        candidates = list(dict.fromkeys(candidates))
        values, undecided = compute_regrets(judge.compute_costs(candidates), judge.scenarios.compute_doubts(candidates))
        return dict(zip(candidates, values, strict=True)), undecided

    def _find_least_regret(self, regret: dict, persistent_only: bool) -> Choice | None:
        """Chooses the candidate of least expected regret, USD a month; None where none has any.
        `persistent_only`: candidates on local disks do not count."""
        # Losing everything with the instance is a large regret: local disks count only where the
        # cheapest has them too.
        priced = [
            candidate
            for candidate, value in regret.items()
            if not math.isnan(value.expected) and not (persistent_only and LOCAL in candidate[0])
        ]
        if not priced:
            return None

        def rank_candidate(candidate: Candidate) -> tuple:
            """Orders by expected regret, then worst regret (both USD a month), then number of
            volumes, then name."""
            (storage, log, place), value = candidate, regret[candidate]
            own = self.hosts[place].service == "ec2"
            volumes = self.directory.look_up(storage).members + (log is not None) if own else 1
            return (round(value.expected, 4), round(value.worst, 4), volumes, storage, log or "", place)

        return self.chooser.choose([min(priced, key=rank_candidate)], regret)[0]

    # --- the answer -------------------------------------------------------------------------------

    def _build_plan(self, selection: Selection) -> Plan:
        """Builds the plan, part by part, from the outcome of the choice."""
        question, on = self.question, self.question.settings.on
        # Counted first: candidates of the chart of cost are not among those of the search.
        search = self._build_market_search()

        def add_steps(choice: Choice) -> Choice:
            """Adds to a choice what it takes to get there from today's storage, and its replay."""
            steps = {
                "migration": describe_migration(selection.compared, choice),
                "changes": describe_changes(selection.compared, choice),
            }
            replayed = None if self.replay is None else self.replay.replays.get(self.get_candidate(choice))
            return replace(choice, **steps, replayed=replayed)

        choices = self._build_choices(selection, add_steps)
        recommended = None if selection.recommended is None else add_steps(selection.recommended)
        return Plan(
            subject=self.judge.subject,
            workload=self._describe_workload(),
            goals=question.goals,
            recommended=recommended,
            choices=choices,
            load=question.load,
            search=search,
            doubts=self._build_doubts(selection),
            steps=self._build_next_steps(recommended, choices),
            services=build_services_part(self, selection.searched, selection.recommended) if on != ("ec2",) else None,
        )

    def _build_market_search(self) -> MarketSearch:
        """Says what was searched, and counts candidates by how they were judged."""
        question, prices, counts = self.question, self.question.prices, self.judge.counts
        return MarketSearch(
            service=", ".join(question.settings.on),
            region=prices.region,
            as_of=prices.as_of,
            prices=prices.describe_prices(any(host.instance for host in self.hosts)),
            considered=len(counts.seen),
            simulated=counts.count("simulated", "ran"),
            bounded=counts.count("bounded"),
            invalid=counts.count("invalid"),
            stepped_up=[data for data, *_ in self.judge.refuted] if isinstance(self.judge, DemandJudge) else [],
            instances=len({host.name for host in question.hosts if host.instance is not None}),
            skipped_instances=list(question.skipped),
        )

    def _build_choices(self, selection: Selection, add_steps: Callable[[Choice], Choice]) -> Choices:
        """Returns the choices with the verdicts on families, the chart of cost and the arithmetic.
        `add_steps` adds migration and replay to a choice."""
        needed, may_stripe = self.question.need.data_gib, "raid0" not in self.question.excluded
        return Choices(
            why_recommended=selection.why,
            why_nothing=""
            if selection.winners or selection.closest
            else explain_nothing(self.verdicts, self.families, needed, may_stripe),
            winners=[add_steps(choice) for choice in selection.winners],
            closest=[add_steps(choice) for choice in selection.closest],
            in_place=None if selection.in_place is None else add_steps(selection.in_place),
            compared=selection.compared,
            saving=self.chooser.compute_saving(selection.compared, selection.recommended),
            least_regret=None if selection.least is None else add_steps(selection.least),
            families=sorted(self.verdicts, key=_rank_verdict),
            frontier=self._build_frontier(selection.searched, selection.recommended),
            explain=explain(
                self.chooser, [(self.get_candidate(choice), add_steps(choice)) for choice in selection.list_explained()]
            ),
        )

    def _build_doubts(self, selection: Selection) -> PlanDoubts:
        """Returns warnings, notes and checks, and how sure the judge of a database is."""
        judge = self.judge
        weighs = isinstance(judge, DatabaseJudge)
        return PlanDoubts(
            warnings=list(self.question.warnings),
            caveats=self._list_caveats(selection),
            checks=self._list_checks(selection.compared),
            confidence=self.question.settings.confidence if weighs else None,
            draws=judge.scenarios.drawn if weighs else None,
            undecided=selection.undecided,
        )

    def _build_next_steps(self, recommended: Choice | None, choices: Choices) -> NextSteps:
        """Says what to do for the recommendation, for the alternative in place where that is
        another, and what to watch."""
        day, today, in_place = self.question.prices.as_of, choices.compared, choices.in_place
        same = recommended is not None and in_place is not None and recommended.key == in_place.key
        return NextSteps(
            actions=list_actions(recommended, today, day, self.is_mariadb),
            in_place_actions=[] if same or in_place is None else list_actions(in_place, today, day),
            alarms=list_alarms(recommended, day),
        )

    def _describe_workload(self) -> dict:
        """Returns the workload as the plan shows it: totals of a demand, or name, engine, cache in
        GiB and clients of a database."""
        workload = self.question.workload
        if isinstance(workload, OpenWorkload):
            return workload.summarize()
        return {
            "name": workload.name,
            "engine": workload.engine,
            "cache_gib": workload.cache_gib,
            "threads": workload.threads,
            "instance": workload.instance,
        }

    def _list_checks(self, compared: Choice | None) -> list[dict]:
        """Compares recorded latency and the model's, on today's storage."""
        workload = self.question.recorded
        recorded = None if workload is None or compared is None else workload.find_recorded_latency()
        if workload is None or compared is None or recorded is None or not isinstance(self.chooser, DemandChooser):
            return []
        from headrace.simulation.demand import simulate

        run = simulate(
            workload, compared.storage, instance=compared.instance, as_of=self.question.prices.as_of, form="interval"
        )
        return compare_latency(workload, recorded, run.rows, self.chooser.describe_moment)

    def _list_caveats(self, selection: Selection) -> list[str]:
        """Lists the doubts about the plan, each once: notes of the question and the workload, of
        the choices shown, and about binary logs and processors. Without what is a warning
        already."""
        workload, conditions = self.question.workload, self.question.conditions
        caveats = [
            *self.question.notes,
            *workload.caveats,
            *(caveat for choice in selection.list_explained() for caveat in (*choice.far_from_runs, *choice.caveats)),
        ]
        if self.given_up:
            caveats.append(
                f"Above {', '.join(dict.fromkeys(self.given_up))} nothing was searched after {MOST_STEPS_UP} steps up: more of it "
                "may be cheaper than what is recommended."
            )
        logs = None if conditions is None else note_binlogs(conditions, selection.recommended)
        caveats += [logs] if logs else []
        if isinstance(workload, TransactionWorkload) and any(host.instance for host in self.hosts):
            if workload.database["clients"]["cpu_ms"] <= 0:
                caveats.append(
                    "The workload does not say what processor time a transaction takes: "
                    "virtual CPUs are the bottleneck nowhere in this plan."
                )
            elif workload.database["clients"]["core_speed"] is None:
                caveats.append(
                    "A virtual CPU counts alike on every instance: generations and makers differ by tens of percent."
                )
            else:
                caveats.append(
                    "The speed of an instance's cores is their clock times the work per clock that makers announce: "
                    "for one load it may be off by tens of percent."
                )
        return [note for note in dict.fromkeys(caveats) if note not in self.question.warnings]

    def _build_frontier(self, searched: Sequence[FamilyResult], recommended: Choice | None) -> pl.DataFrame:
        """Returns the points of the chart of cost against performance: candidates along the best
        space of the cheapest families, with at least one of each service."""
        cheapest = sorted(
            ((family.passing or [*family.guessed])[0] for family in searched if family.guessed),
            key=lambda result: (result.best is None, rank(result)),
        )
        first = {result.space.family.service: result for result in reversed(cheapest)}
        most_curves = CURVES if len(first) == 1 else CURVES_OF_SERVICES
        others = [result for result in cheapest if all(result is not other for other in first.values())]
        starts = [*first.values(), *others[: max(0, most_curves - len(first))]]
        family_names: dict[Candidate, str] = {}
        for result in starts:
            (x, x_high), (y, y_high) = result.space.shape.x, result.space.shape.y
            best = result.best or result.high
            shares = [step / (CURVE_POINTS - 1) for step in range(CURVE_POINTS)]
            points = [(round(x + share * (best[0] - x)), round(y + share * (best[1] - y))) for share in shares]
            points += [
                (round(best[0] + share**2 * (x_high - best[0])), round(best[1] + share**2 * (y_high - best[1])))
                for share in shares[1:]
            ]
            family_names |= {result.space.make_candidate(point): result.space.family.name for point in points}
        usd = (
            self.judge.compute_costs(list(family_names)) * self.question.settings.nodes + self.fixed_usd
            if family_names
            else []
        )
        most = CURVE_USD * recommended.cost_usd_month if recommended else math.inf
        # Whoever asks about a service wants to see it, however dear it is.
        always = {result.candidate for result in first.values()}
        plotted = [
            (candidate, float(cost))
            for candidate, cost in zip(family_names, usd, strict=True)
            if cost <= most or (len(first) > 1 and candidate in always)
        ]
        delivered = self.chooser.compute_deliveries([candidate for candidate, _ in plotted]) if plotted else []
        points = []
        for (candidate, cost), figures in zip(plotted, delivered, strict=True):
            storage, log, host = candidate
            place = {
                "storage": storage,
                "log_storage": log,
                "instance": self.hosts[host].label,
                "family": family_names[candidate],
            }
            points += [] if figures is None else [place | {"cost_usd_month": cost} | figures]
        text: dict[str, type[pl.String]] = dict.fromkeys(("storage", "log_storage", "instance", "family"), pl.String)
        return pl.DataFrame(points, schema=None if points else text, schema_overrides=text, infer_schema_length=None)


@contextlib.contextmanager
def _pause_collection() -> Iterator[None]:
    """Pauses the cyclic garbage collector: a search makes hundreds of thousands of values without a
    cycle, and each collection walks all of them (6 to 10 % of its processor time)."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _make_space_key(space: Space) -> tuple:
    return (space.family.name, space.shape.members, space.shape.member_gib, space.shape.y, space.log, space.host)


def _find_corner_above(result: SpaceResult, cap: str | None) -> tuple[int, int] | None:
    """Returns the low corner above a result, on the axis of a limit; None where no point of the
    space lies there, or requests waited for no limit."""
    shape, low = result.space.shape, result.best or result.low
    axis = 1 if cap == "volume-throughput" and shape.y[1] > shape.y[0] else 0
    above = shape.find_alike(axis, low[axis])[1] + 1
    if cap is None or above > (shape.x, shape.y)[axis][1]:
        return None
    return (above, result.low[1]) if axis == 0 else (result.low[0], above)


def _rank_verdict(verdict: FamilyVerdict) -> tuple:
    """Orders verdicts for the plan: by outcome, winners first, then by cost in USD a month, then by
    name."""
    outcomes = ("wins", "costs the same", "costs more", "fails", "no price", "impossible", "excluded")
    return (outcomes.index(verdict.outcome), verdict.best.cost_usd_month if verdict.best else math.inf, verdict.family)
