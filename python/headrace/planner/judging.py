"""Computes what all judges share: the bill of a candidate, and the facts that follow from its type,
layout and service alone."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from headrace.catalog.price_list import PriceList
from headrace.planner.candidates import Candidate, Directory, Family, Host, Need, find_backing_volumes
from headrace.planner.market.durability import SURVIVAL, compute_candidate_figures, compute_survival


class CandidateJudge(ABC):
    """Knows what candidates on `hosts` cost. `readers`: of an Aurora cluster."""

    def __init__(
        self, prices: PriceList, hosts: list[Host], directory: Directory | None = None, readers: int = 0
    ) -> None:
        """Starts without any bill; `directory`: shared with other judges, None: a new one."""
        self.prices, self.hosts, self.readers = prices, hosts, readers
        self.directory = Directory(prices.as_of) if directory is None else directory
        self._volumes_usd: dict[str, float] = {}
        self._managed_usd: dict[Candidate, float] = {}

    @abstractmethod
    def performs(self, candidates: Sequence[Candidate]) -> list[bool]:
        """Says which candidates meet the goals but that on cost, by the best guess."""

    def forget_host(self, place: int) -> None:
        """Forgets what is known of the candidates on a host that leaves `hosts`: another will have
        its place."""
        self._managed_usd = {candidate: usd for candidate, usd in self._managed_usd.items() if candidate[2] != place}

    def count_million_ios(self, storage: str) -> float:
        """Returns the millions of requests a month that the volumes of a storage get, by which
        standard volumes are billed; 0 where a judge does not know them."""
        return 0.0

    def list_service_items(self, candidate: Candidate) -> list[dict] | None:
        """Returns the items of a service's monthly bill, in USD; None where a price is missing."""
        return None

    def compute_cost(self, candidate: Candidate) -> float:
        """Returns the USD a month of one candidate, NaN where a price is not known."""
        data, log, place = candidate
        host = self.hosts[place]
        if host.service == "ec2":
            return self._compute_usd(data) + (0.0 if log is None else self._compute_usd(log)) + host.usd_month
        if candidate not in self._managed_usd:
            items = self.list_service_items(candidate)
            self._managed_usd[candidate] = math.nan if items is None else sum(item["usd"] for item in items)
        return self._managed_usd[candidate]

    def compute_costs(self, candidates: Sequence[Candidate]) -> np.ndarray:
        """Returns the USD a month of each candidate, NaN where a price is not known."""
        return np.array([self.compute_cost(candidate) for candidate in candidates], dtype=float)

    def _compute_usd(self, storage: str) -> float:
        """Returns the USD a month of volumes, NaN where no price is known; cached."""
        usd = self._volumes_usd.get(storage)
        if usd is None:
            [usd] = self.prices.compute_volume_totals([storage], self.count_million_ios(storage))
            self._volumes_usd[storage] = usd
        return usd

    def get_backing_volumes(self, candidate: Candidate) -> str | None:
        """Returns the EBS volumes that serve a candidate's data; None: Aurora's storage."""
        return find_backing_volumes(candidate[0], self.hosts[candidate[2]].service, self.prices.as_of)

    def compute_statics(self, candidates: Sequence[Candidate]) -> dict[str, np.ndarray]:
        """Returns the durability (annual failure rate) and promised consistency in percent,
        failover and the loss of a zone in seconds, by metric: they follow from type, layout and
        service alone."""
        figures = [
            compute_candidate_figures(self.directory, candidate, self.hosts[candidate[2]].service)
            for candidate in candidates
        ]
        afr, promised = np.array(figures, dtype=float).reshape(-1, 2).T
        survived = [self.get_survival(candidate) for candidate in candidates]
        more = {name: np.array([survival[name] for survival in survived], dtype=float) for name in SURVIVAL}
        return {"durability_afr_percent": afr, "consistency_percent": promised} | more

    def get_survival(self, candidate: Candidate) -> dict[str, float]:
        """Returns the seconds of a failover, and those of commits that are lost with a zone, by
        metric; NaN: not known, or without a bound."""
        return compute_survival(self.hosts[candidate[2]].service, self.prices.as_of, self.readers)


class WeighingJudge(CandidateJudge):
    """A judge whose goals hold with a probability."""

    @abstractmethod
    def meets_with_confidence(self, candidates: Sequence[Candidate]) -> list[bool]:
        """Says which candidates meet the goals with the confidence required."""

    @abstractmethod
    def list_logs(self, families: Sequence[Family], need: Need) -> list[str | None]:
        """Lists the volumes that a log may lie on, None first: it lies with the data."""
