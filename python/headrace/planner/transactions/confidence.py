"""From "meets the goals by the best guess" to "meets them with the confidence asked for": the same bisection, judged by probability."""

from __future__ import annotations

import numpy as np

from headrace.planner.transactions.doubt import Worlds
from headrace.planner.transactions.evaluate import Evaluator, Pick
from headrace.planner.transactions.search import Found, lowest, pick_of
from headrace.planner.transactions.storages import Route

ON_A_HOST = 5  # front-runners; hosts are searched eight at a time, so some 40 together
# Of a family dearer than the best of the others by so much only the cheapest of each host is raised: enough to say by how much it lost.
DEARER = 1.5
# Routes up to this much dearer than the family's best that is sure enough stay, to be ranked.
KEPT = 1.15

Sure = tuple[Route, int, float]


def front_runners(found: Found) -> list[Sure]:
    """The cheapest routes, a few on each host, at the lowest index that meets the goals by the best guess; ties: fewer volumes, by name."""
    least: dict[Route, Sure] = {}
    for entry in found.passing:
        known = least.get(entry[0])
        if known is None or entry[1] < known[1]:
            least[entry[0]] = entry
    on_host: dict[int, int] = {}
    runners = []
    for entry in sorted(least.values(), key=rank):
        on_host[entry[0].host] = on_host.get(entry[0].host, 0) + 1
        if on_host[entry[0].host] <= ON_A_HOST:
            runners.append(entry)
    return runners


def rank(entry: Sure) -> tuple:
    """Cheapest first; ties: fewer volumes, then by name."""
    route, index, usd = entry
    volumes = (0 if route.line is None else route.line.members) + (route.log is not None)
    return (round(usd, 6), volumes, route.storage(index), route.log or "", route.host)


def surely(
    evaluator: Evaluator, worlds: Worlds, found: Found, confidence: float, best_usd: float, family_usd: float
) -> tuple[list[Sure], list[Sure]]:
    """Front-runners raised until the goals hold with `confidence`, cheapest first; and those that cannot be, at the most they sell. `best_usd`: the cheapest of any family so
    far, `family_usd`: of this one."""
    sure: list[Sure] = []
    unsure: list[Sure] = []
    runners = front_runners(found)
    hosts: set[int] = set()
    first, more = [], []
    for entry in runners:
        (more if entry[0].host in hosts else first).append(entry)
        hosts.add(entry[0].host)
    _raise(evaluator, worlds, first, confidence, family_usd, sure, unsure)
    if not sure or found.best_usd <= DEARER * best_usd:
        _raise(evaluator, worlds, more, confidence, family_usd, sure, unsure)
    return sorted(sure, key=rank), sorted(unsure, key=rank)


def _raise(
    evaluator: Evaluator, worlds: Worlds, runners: list[Sure], confidence: float, family_usd: float, sure: list[Sure], unsure: list[Sure]
) -> None:
    routes = [route for route, *_ in runners]

    def price(indices: dict[int, int]) -> np.ndarray:
        return evaluator.costs([pick_of(routes[i], index) for i, index in indices.items()])

    def affordable(indices: dict[int, int]) -> dict[int, int]:
        best = min((usd for *_, usd in sure), default=family_usd)
        usd = price(indices) if indices else []
        return {i: index for (i, index), cost in zip(indices.items(), usd, strict=True) if cost <= min(evaluator.most_usd, KEPT * best)}

    def judge(indices: dict[int, int]) -> dict[int, bool]:
        picks: list[Pick] = [pick_of(routes[i], index) for i, index in indices.items()]
        fine = [doubt.probability >= confidence for doubt in worlds.of(picks)] if picks else []
        for (i, index), ok, usd in zip(indices.items(), fine, price(indices) if indices else [], strict=True):
            if ok:
                sure.append((routes[i], index, float(usd)))
        return dict(zip(indices, fine, strict=True))

    at_low = judge(affordable({i: index for i, (_, index, _) in enumerate(runners)}))
    rising = {i: routes[i].last for i, ok in at_low.items() if not ok}
    still = {i: last for i, last in rising.items() if last > runners[i][1]}
    # The most a route sells is bought by nobody: what it costs says nothing, so it is looked at without regard to price, and not kept.
    tops = worlds.of([pick_of(routes[i], last) for i, last in still.items()]) if still else []
    at_high = {i: doubt.probability >= confidence for i, doubt in zip(still, tops, strict=True)}
    unsure += [(routes[i], last, float(price({i: last})[0])) for i, last in rising.items() if not at_high.get(i, False)]
    bounds = {i: (runners[i][1], still[i]) for i, ok in at_high.items() if ok}
    lowest(bounds, judge=judge, affordable=affordable, last=lambda i, index: sure.append((routes[i], index, float(price({i: index})[0]))))
