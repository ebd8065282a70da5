"""Width of the factor that no parameter covers, for each candidate: by its distance from the runs.

A volume's cap is what most runs measure; clients and processors of another instance are not. The
bottleneck of a candidate is a mixture of both, since limits take over from each other smoothly. The
largest volume of the candidate's kind, at the same host, shows what the server alone allows:

    T = (S^-p + C^-p)^(-1/p)      T: the candidate, S: its storage, C: its server, p: sharpness
    d ln T / d ln C = (T / C)^p   the share of the server in what holds it

A binary answer would make a larger volume less sure than a smaller one, which it never is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.planner.candidates import Candidate, make_shape
from headrace.simulation.services import get_unseen
from headrace.workload.unexplained import is_of_server

if TYPE_CHECKING:
    from headrace.planner.database import DatabaseJudge


@dataclass(frozen=True)
class BestGuess:
    """Rate of a candidate by the best guess, transactions a second, and the cap that binds it;
    None if it cannot run the load."""

    tps: float | None
    cap: str | None


class Widths:
    """Relative standard deviations (widths) of the factor that no parameter covers, by
    candidate."""

    def __init__(self, judge: DatabaseJudge) -> None:
        self.judge = judge
        self.guesses: dict[Candidate, BestGuess] = {}

    def run(self, candidates: Sequence[Candidate]) -> None:
        """Runs the candidates and the largest of their kind, and caches their rates and caps."""
        needed = dict.fromkeys([*candidates, *(self._find_largest(candidate) for candidate in candidates)])
        new = [candidate for candidate in needed if candidate not in self.guesses]
        if not new:
            return
        [columns] = self.judge.run_in([self.judge.core], [1.0], new, names=("cap", "tps"))
        for candidate, status, cap, tps in zip(new, columns["status"], columns["cap"], columns["tps"], strict=True):
            ran = status == "ran" and tps > 0.0
            self.guesses[candidate] = BestGuess(float(tps), str(cap)) if ran else BestGuess(None, None)

    def compute_width(self, candidate: Candidate) -> float:
        """Returns the relative standard deviation of the factor on a candidate's tps that no
        parameter covers; `run` had the candidate before."""
        judge, guess, largest = self.judge, self.guesses[candidate], self.guesses[self._find_largest(candidate)]
        host = judge.hosts[candidate[2]]
        service = get_unseen(host.service, judge.count_near_runs(host))
        server = next((each.cap for each in (largest, guess) if each.cap and is_of_server(each.cap)), None)
        if server is None:
            return math.hypot(self._compute_spread(candidate, guess.tps, guess.cap), service)
        share = 1.0
        if guess.tps is not None and largest.tps is not None:
            share = min(1.0, guess.tps / largest.tps) ** judge.database["clients"]["sharpness"]
        by_server = self._compute_spread(candidate, guess.tps, server)
        by_storage = self._compute_spread(candidate, guess.tps, "storage")
        return math.hypot(math.sqrt(share) * by_server, math.sqrt(1.0 - share) * by_storage, service)

    def _compute_spread(self, candidate: Candidate, tps: float | None, limit: str | None) -> float:
        """Returns the part of that deviation that the calibration leaves unexplained at `tps`
        transactions a second if `limit` alone held the candidate."""
        judge, host = self.judge, self.judge.hosts[candidate[2]]
        distances = judge.workload.compute_distances(
            cache_gib=host.cache_gib,
            transactions=self._count_transactions(tps),
            threads=judge.conditions.threads,
            # Aurora's storage is none of the catalog's kinds: how far it is, `unseen` says.
            storage=judge.get_backing_volumes(candidate),
            limit=limit,
            release=None,  # a plan keeps the server; a service's own is in `unseen`
            tps=tps,
            core_speed=None if host.instance is None else host.instance["core_speed"],
            vcpus=None if host.instance is None else host.instance["vcpus"],
        )
        return judge.workload.compute_unexplained(distances)

    def _count_transactions(self, tps: float | None) -> float | None:
        """Returns the transactions at the end of a cold start's hours at that rate; None: warm."""
        conditions = self.judge.conditions
        return None if conditions.start == "warm" or tps is None else tps * conditions.hours * 3600.0

    def _find_largest(self, candidate: Candidate) -> Candidate:
        """Returns the candidate with the most IOPS, MiB/s or GiB that its volumes are sold with;
        itself where nothing is chosen (services, local disks)."""
        data, log, place = candidate
        facts = self.judge.directory.look_up(data, self.judge.hosts[place].service)
        if self.judge.hosts[place].service != "ec2" or facts.backing is None or not facts.family.era:
            return candidate
        shape = make_shape(facts.family, facts.members, facts.backing.members[0].size_gib)
        return (shape.write_storage((shape.x[1], shape.y[1])), log, place) if facts.family.axis != "none" else candidate
