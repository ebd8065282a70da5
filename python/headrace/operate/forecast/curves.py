"""Shapes of growth: a line, a bend, and growth by a factor; fitted robustly, and compared.

A figure a day, or its logarithm. A figure that grows by the same factor each day is a line in
logarithms; one that grows by the same amount is one in the figures themselves. Both are tried, and
a parabola, and each has the chance that the days give it: by the Bayesian information criterion of
residuals with the Laplace distribution, which odd days do not rule (Schwarz 1978; weights of
models: Raftery 1995).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import theilslopes

LINE, BEND, FACTOR, AMOUNT = "line", "bend", "factor", "amount"
# Free parameters of each.
PARAMETERS = {LINE: 2, BEND: 3, FACTOR: 2, AMOUNT: 2}
# Weights of the shapes of growth before the days are fitted: straight growth is thrice as likely as
# bent. A guess.
PRIOR = {LINE: 3.0, BEND: 1.0, FACTOR: 1.0, AMOUNT: 1.0}
LEAST_CHANCE = 0.05  # of a kind that is still reckoned with; ours
MOST_LIKENESS = 0.9  # of a day to the day before; keeps the number of days that count finite
# Residuals below this share of the range are rounding.
ROUNDING = 1e-9
# Huber's weights: 1.345 standard deviations, 95 % efficient for normal residuals (Huber 1981).
HUBER, ROUNDS = 1.345, 8
MAD_TO_SIGMA = 1.4826  # of a normal variable: 1 / 0.6745
LEAST_FIGURE = 1e-9  # below it a logarithm says nothing; a line that falls through zero ends here


@dataclass(frozen=True)
class GrowthShape:
    """A fitted shape: `level` on day 0, what it changes by a day there, and how that changes.
    `rests`: whether growth that slows down comes to rest, or goes on as on day 0."""

    kind: str
    level: float
    slope: float
    bend: float = 0.0
    rests: bool = True

    def at(self, days: np.ndarray) -> np.ndarray:
        """Returns the figure on each day."""
        if self.kind == FACTOR:
            return np.exp(np.minimum(self.level + self.slope * days, 700.0))  # e^700 is the largest float, nearly
        if self.bend * self.slope < 0.0:
            # Growth that slows down comes to rest, and does not turn: ahead a hyperbola of the same
            # level, slope and bend.
            ahead = np.maximum(days, 0.0)
            slower = 1.0 - self.bend / self.slope * ahead if self.rests else 1.0
            straight = self.level + self.slope * ahead / slower
            before = np.minimum(days, 0.0)
            straight = straight + self.slope * before + self.bend * before**2
        else:
            straight = self.level + self.slope * days + self.bend * days**2
        return np.log(np.maximum(straight, LEAST_FIGURE)) if self.kind == AMOUNT else straight

    @property
    def per_day(self) -> float:
        """The change of the figure a day, on day 0."""
        if self.kind == FACTOR:
            return self.slope * math.exp(self.level)
        if self.kind == AMOUNT:
            return self.slope / max(self.level, LEAST_FIGURE)
        return self.slope


def fitted(kind: str, days: np.ndarray, values: np.ndarray) -> GrowthShape:
    """Fits the shape of that kind to the figures: lines by the median of all slopes."""
    if kind == BEND:
        return _bend(days, values)
    figures = {FACTOR: np.log, AMOUNT: np.exp}.get(kind, np.asarray)(values)
    slope = float(np.array(theilslopes(figures, days))[0])
    return GrowthShape(kind, float(np.median(figures - slope * days)), slope)


def chances_of(days: np.ndarray, values: np.ndarray, logarithms: bool) -> dict[str, float]:
    """Returns the kinds that the figures speak for with the chance of each, the best first; those
    that they speak against are left out. `logarithms`: True where the figures are logarithms."""
    other = AMOUNT if logarithms else FACTOR
    kinds = [LINE, BEND, other] if logarithms or values.min() > 0 else [LINE, BEND]
    shapes = {kind: fitted(kind, days, values) for kind in kinds}
    # The parabola nearly has both others in it: what it leaves is chance.
    count = _independent(values - shapes[BEND].at(days))
    scores = {kind: _score(shape, days, values, count) for kind, shape in shapes.items()}
    best = min(scores.values())
    # Chances of the kinds: the criterion's, and that most growth is straight.
    chances = {kind: math.exp((best - value) / 2.0) * PRIOR[kind] for kind, value in scores.items()}
    total = sum(chances.values())
    likely = {kind: chance / total for kind, chance in chances.items() if chance >= LEAST_CHANCE * total}
    return dict(sorted(likely.items(), key=lambda item: -item[1]))


def _independent(residuals: np.ndarray) -> float:
    """Returns how many days count, where each resembles the day before: a mean of n has the
    variance of one of n (1 - r) / (1 + r)."""
    centred = residuals - residuals.mean()
    power = float(centred @ centred)
    likeness = min(MOST_LIKENESS, max(0.0, float(centred[1:] @ centred[:-1]) / power)) if power > 0 else 0.0
    return len(residuals) * (1.0 - likeness) / (1.0 + likeness)


def _score(shape: GrowthShape, days: np.ndarray, values: np.ndarray, count: float) -> float:
    """Returns the criterion for `count` days that count; the lower the better."""
    rounding = ROUNDING * (float(np.ptp(values)) + abs(float(values.mean())))
    spread = max(float(np.abs(values - shape.at(days)).mean()), rounding, LEAST_FIGURE)
    return 2.0 * count * math.log(spread) + PARAMETERS[shape.kind] * math.log(max(count, 2.0))


def _bend(days: np.ndarray, values: np.ndarray) -> GrowthShape:
    """Fits a parabola by least squares, odd days weighed down."""
    scale = max(1.0, float(np.abs(days).max()))
    x = days / scale
    table = np.column_stack([np.ones_like(x), x, x**2])
    weights = np.ones_like(x)
    coefficients = np.zeros(3)
    for _ in range(ROUNDS):
        root = np.sqrt(weights)
        coefficients = np.linalg.lstsq(table * root[:, None], values * root, rcond=None)[0]
        residuals = np.abs(values - table @ coefficients)
        sigma = MAD_TO_SIGMA * float(np.median(residuals))
        if sigma <= 0.0:
            break
        weights = np.minimum(1.0, HUBER * sigma / np.maximum(residuals, 1e-300))
    return GrowthShape(BEND, float(coefficients[0]), float(coefficients[1]) / scale, float(coefficients[2]) / scale**2)
