"""A robust trend of daily figures, straight or curved, with its interval; or none.

Theil-Sen: the median of the slopes between all pairs of days, which a quarter of odd days cannot
move (Theil 1950, Sen 1968; scipy.stats.theilslopes). The interval comes from resampling the
residuals in blocks of days, which keeps weeks and saw teeth together (moving-block bootstrap,
Kuensch 1989). The days decide whether it is straight (`compute_chances`); if they cannot tell, the
interval holds both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.stats import theilslopes

# Days that a trend rests on: two whole weeks (the specification of this forecast). A sudden change
# that leaves fewer behind it leaves no trend.
LEAST_DAYS = 14
WEEK = 7  # days: loads of businesses repeat by it
# Blocks are a quarter of the history, so that saw teeth longer than a week stay whole: a guess, as
# good as the usual rules on the seeded histories of the tests.
BLOCK_SHARE = 0.25
RESAMPLES = 400  # the 1st percentile then rests on 4 values: enough to choose, not to print
MOST_DAYS = 364  # whole weeks of a year: older days say little of the next ones; bounds the pairs
HORIZON_DAYS = 1_095  # three years: what is later is "not in sight"
# A trend is claimed where its 99 % interval excludes 0, so that a flat history is called growing
# once in a few hundred; what is printed is the 80 % interval.
CLAIM = (0.5, 99.5)
CLAIM_CONFIDENCE = 0.99
MOST_LIKENESS = 0.9  # of a day to the day before; a guess that keeps the interval finite
SHOWN = (10.0, 50.0, 90.0)
STEP_SIGMA = 5.0  # a day's change of more than this many standard deviations cuts the history
MAD_TO_SIGMA = 1.4826  # of a normal variable: 1 / 0.6745
RECURRING = 3  # steps of one direction that often belong to the pattern (purges), and cut nothing
MOST_ODD_DAYS = 4  # in a row: a long weekend; more of them are another load. Ours
NEARLY_IDLE = 0.05  # of the usual day's demand: below, a day tells nothing of growth. Ours
# A change below this share of the figure is never a step, however smooth the other days are.
LEAST_STEP_SHARE = 0.02


@dataclass(frozen=True)
class Trend:
    """`per_day`: the slope at the last day; `low`, `high`: its 80 % interval. `claimed`: whether it
    is more than chance. `now`: the line at the last day. `days`: how many the line rests on. `cut`:
    index of the day at which a step cut the history, None without one; `since`: its place in days
    from the last day, or that of the first day. `kinds`: the likely kinds of shapes, the best first
    (`compute_chances`). `shapes`: those of resampled histories; `noise`: for each, by how much each
    of the next days differs from it."""

    per_day: float
    low: float
    high: float
    claimed: bool
    now: float
    days: int
    cut: int | None
    since: float
    kinds: tuple[str, ...]
    shapes: tuple[GrowthShape, ...] = field(repr=False)
    noise: np.ndarray = field(repr=False)

    @property
    def enough(self) -> bool:
        """True when it rests on enough days to say anything of the days to come."""
        return self.days >= LEAST_DAYS

    @property
    def curved(self) -> bool:
        """True when it is known not to be straight."""
        return self.kinds[0] != LINE

    def forecast_days(self, target: float) -> tuple[float, float, float]:
        """Returns days from the last day until a day's figure first reaches `target` from below:
        the 10th, 50th and 90th percentile of the paths; infinite where it is not reached in three
        years."""
        ahead = np.arange(1.0, HORIZON_DAYS + 1.0)
        paths = np.array([shape.evaluate(ahead) for shape in self.shapes]) + self.noise
        reached = paths >= target
        days = np.where(reached.any(axis=1), reached.argmax(axis=1) + 1.0, np.inf)
        # The order statistics themselves: between a number and infinity nothing can be drawn.
        early, middle, late = np.percentile(days, SHOWN, method="closest_observation")
        return float(early), float(middle), float(late)

    def forecast_figure(self, days: float) -> tuple[float, float, float]:
        """Returns the 10th, 50th and 90th percentile of the figure of the day that is `days` ahead,
        with a day's own noise."""
        at = np.array([days])
        ahead = np.array([shape.evaluate(at) for shape in self.shapes]) + self.noise[:, :WEEK]
        low, middle, high = np.percentile(ahead, SHOWN)
        return float(low), float(middle), float(high)


def find_days_with_demand(figures: np.ndarray) -> np.ndarray:
    """Returns the indexes of the days that tell something of growth: not those that were idle, or
    nearly so (a day on which the server was away, or that was recorded in part)."""
    usual = figures[figures > 0]
    least = NEARLY_IDLE * float(np.median(usual)) if len(usual) else 0.0
    idle = (figures > 0) & (figures < least)
    # Many in a row are a load that went away: that is a step, and no odd day.
    ends = np.flatnonzero(np.diff(np.concatenate([[0], idle.astype(int), [0]])))
    for begin, end in zip(ends[::2], ends[1::2], strict=True):
        if end - begin > MOST_ODD_DAYS:
            idle[begin:end] = False
    return np.flatnonzero((figures > 0) & ~idle)


def fit_trend(values: np.ndarray, seed: int, at: np.ndarray | None = None, logarithms: bool = False) -> Trend:
    """Returns the trend of a figure a day, oldest first, at least 3 of them.

    `at`: where days are left out, the place of each figure in days from the last day of the history
    (0; earlier days are negative). None: a figure for each day. `logarithms`: whether the figures
    are logarithms.
    """
    values = np.asarray(values, dtype=float)
    days = np.asarray(np.arange(1 - len(values), 1) if at is None else at, dtype=float)
    dropped = max(0, len(values) - MOST_DAYS)
    values, days = values[dropped:], days[dropped:]
    step = find_last_step(values, days)
    if step is not None and len(values) - step < 3:
        step = None  # two days make no line: the step may be the noise of a day
    recent, days = values[step or 0 :], days[step or 0 :]
    cut, since = None if step is None else step + dropped, float(days[0])
    draw = np.random.default_rng(seed)
    if len(recent) < LEAST_DAYS:
        return _fit_level(recent, days, cut, draw)
    # A part of a week more at one end would tilt the line.
    whole = days > -((1.0 - days[0]) // WEEK * WEEK)
    recent, days = recent[whole], days[whole]
    chances = compute_chances(days, recent, logarithms)
    kinds = tuple(chances)
    shape = fit_shape(kinds[0], days, recent)
    line = shape.evaluate(days)
    residuals = recent - line
    resampled = _resample_blocks(residuals, len(recent), draw)
    # Kinds that the days cannot tell apart take turns, by their chances.
    shapes = tuple(
        fit_shape(kind, days, _clip_figures(kind, line + noise))
        for noise, kind in zip(resampled, _assign_kinds(chances), strict=True)
    )
    # The days do not say how growth that slows down goes on: half of the shapes come to rest, and
    # half stop slowing.
    shapes = tuple(replace(shape, rests=number % 2 == 0) for number, shape in enumerate(shapes))
    slopes = np.array([shape.per_day for shape in shapes])
    low, _, high = np.percentile(slopes, SHOWN)
    least, most = np.percentile(slopes, CLAIM)
    weekly = _compute_weekly_interval(days, recent)
    claimed = bool((least > 0 and weekly[0] > 0) or (most < 0 and weekly[1] < 0))
    now = float(shape.evaluate(np.zeros(1))[0])
    ahead = _resample_blocks(residuals, HORIZON_DAYS, draw)
    return Trend(shape.per_day, float(low), float(high), claimed, now, len(recent), cut, since, kinds, shapes, ahead)


def _fit_level(figures: np.ndarray, days: np.ndarray, cut: int | None, draw: np.random.Generator) -> Trend:
    """Returns the trend of too few figures, not claimed: their level, and their noise around it."""
    level = float(np.median(figures))
    noise = draw.choice(figures - level, size=(RESAMPLES, HORIZON_DAYS))
    shapes = (GrowthShape(LINE, level, 0.0),) * RESAMPLES
    return Trend(0.0, 0.0, 0.0, False, level, len(figures), cut, float(days[0]), (LINE,), shapes, noise)


def _assign_kinds(chances: dict[str, float]) -> list[str]:
    """Returns a kind of shape for each of RESAMPLES histories, each kind as often as its chance."""
    ends = np.cumsum(list(chances.values())) / sum(chances.values())
    kinds = list(chances)
    return [kinds[int(np.searchsorted(ends, (number + 0.5) / RESAMPLES))] for number in range(RESAMPLES)]


def _clip_figures(kind: str, values: np.ndarray) -> np.ndarray:
    """Returns the figures, for a growth by a factor at least LEAST_FIGURE, so that they have a
    logarithm."""
    return np.maximum(values, LEAST_FIGURE) if kind == FACTOR else values


def find_last_step(values: np.ndarray, days: np.ndarray | None = None) -> int | None:
    """Returns the index of the first figure behind the last step, None without one. `days`: the day
    of each figure, None: one a day.

    A step is a change from one day to the next that is more than five standard deviations (by the
    median of absolute deviations) from the usual change; over days that are left out, from that of
    as many days. It stays: most of the week after it is as far from the week before (an idle day,
    or a backup, is over by then). Changes that come back (a purge each week) count as the pattern.
    """
    changes = np.diff(values)
    if len(changes) < RECURRING:
        return None
    days = np.arange(len(values), dtype=float) if days is None else days
    passed = np.diff(days)
    usual = float(np.median(changes / passed))
    apart = changes - usual * passed
    sigma = MAD_TO_SIGMA * np.median(np.abs(apart))
    least = LEAST_STEP_SHARE * float(np.max(np.abs(values)))
    far = max(STEP_SIGMA * sigma, least)
    odd = np.abs(apart) > far
    level = values - usual * days
    steps = [
        int(index)
        for up in (True, False)
        if 0 < (alike := odd & ((apart > 0) == up)).sum() < RECURRING
        for index in np.flatnonzero(alike)
        if _is_lasting_step(level, days, int(index) + 1, far if up else -far, usual)
    ]
    return max(steps) + 1 if steps else None


def _is_lasting_step(level: np.ndarray, days: np.ndarray, first: int, far: float, slope: float) -> bool:
    """Returns whether the level from the figure `first` on is another than before it, by `far` or
    more: most figures of the week after it lie so far from the median of the week before, and the
    other way round. A weekend is not a step: most days behind it must differ from the same day of
    the week before it. `slope`: a day's usual change, which is taken off the level."""
    before, after = level[max(0, first - WEEK) : first], level[first : first + WEEK]
    up = np.sign(far)
    beyond = (
        (up * (after - np.median(before)) >= abs(far)).mean(),
        (up * (np.median(after) - before) >= abs(far)).mean(),
    )
    if min(beyond) <= 0.5:
        return False
    place = {round(day): index for index, day in enumerate(days)}
    weeks = [(index, place[round(day) + WEEK]) for index, day in enumerate(days) if round(day) + WEEK in place]
    if not weeks:
        return True
    # A week changes this much anyway: the level is without the usual change of a day, which a short
    # history with weekends in it tells badly.
    usual = float(np.median([level[later] - level[index] for index, later in weeks]))
    drift = float(np.clip(usual, -abs(WEEK * slope), abs(WEEK * slope)))
    # Half of the change: what is left of it where each day has its own noise.
    apart = [
        up * (level[later] - level[index] - drift) >= abs(far) / 2 for index, later in weeks if index < first <= later
    ]
    return not apart or float(np.mean(apart)) > 0.5


def _fit_line(days: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """Returns the slope a day (the median of all slopes), and the level at day 0."""
    slope = float(np.array(theilslopes(values, days))[0])
    return slope, float(np.median(values - slope * days))


def _compute_weekly_interval(days: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """Returns Sen's interval of the slope once the days of the week are level. Two or three blocks
    of a short history differ too little from each other to find it by resampling alone."""
    slope, level = _fit_line(days, values)
    residuals = values - level - slope * days
    levelled = values.copy()
    weekday = days.astype(int) % WEEK
    if len(values) >= LEAST_DAYS:
        for day in np.unique(weekday):
            levelled[weekday == day] -= np.median(residuals[weekday == day])
    middle, _, least, most = (float(value) for value in np.array(theilslopes(levelled, days, alpha=CLAIM_CONFIDENCE)))
    # Days that resemble the day before carry less: the variance of a mean grows by (1 + r)/(1 - r).
    likeness = _compute_likeness(levelled - middle * days)
    wider = math.sqrt((1.0 + likeness) / (1.0 - likeness))
    return middle + (least - middle) * wider, middle + (most - middle) * wider


def _resample_blocks(residuals: np.ndarray, days: int, draw: np.random.Generator) -> np.ndarray:
    """Returns resampled residuals of `days` days, a row each, put together from runs of days."""
    count = len(residuals)
    block = max(1, min(count - 1, max(min(WEEK, count // 3), int(BLOCK_SHARE * count))))
    pieces = -(-days // block)
    starts = draw.integers(0, count - block + 1, size=(RESAMPLES, pieces))
    index = (starts[:, :, None] + np.arange(block)).reshape(RESAMPLES, -1)[:, :days]
    return residuals[index] - np.median(residuals)


# --- shapes of growth -----------------------------------------------------------------------------
# Shapes of growth: a line, a bend, and growth by a factor; fitted robustly, and compared.
#
# A figure a day, or its logarithm. A figure that grows by the same factor each day is a line in
# logarithms; one that grows by the same amount is one in the figures themselves. Both are tried,
# and a parabola, and each has the chance that the days give it: by the Bayesian information
# criterion of residuals with the Laplace distribution, which odd days do not rule (Schwarz 1978;
# weights of models: Raftery 1995).


LINE, BEND, FACTOR, AMOUNT = "line", "bend", "factor", "amount"
# Free parameters of each.
PARAMETERS = {LINE: 2, BEND: 3, FACTOR: 2, AMOUNT: 2}
# Weights of the shapes of growth before the days are fitted: straight growth is thrice as likely as
# bent. A guess.
PRIOR = {LINE: 3.0, BEND: 1.0, FACTOR: 1.0, AMOUNT: 1.0}
LEAST_CHANCE = 0.05  # of a kind that is still reckoned with; ours
# Residuals below this share of the range are rounding.
ROUNDING = 1e-9
# Huber's weights: 1.345 standard deviations, 95 % efficient for normal residuals (Huber 1981).
HUBER, ROUNDS = 1.345, 8
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

    def evaluate(self, days: np.ndarray) -> np.ndarray:
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


def fit_shape(kind: str, days: np.ndarray, values: np.ndarray) -> GrowthShape:
    """Fits the shape of that kind to the figures: lines by the median of all slopes."""
    if kind == BEND:
        return _fit_bend(days, values)
    figures = {FACTOR: np.log, AMOUNT: np.exp}.get(kind, np.asarray)(values)
    slope = float(np.array(theilslopes(figures, days))[0])
    return GrowthShape(kind, float(np.median(figures - slope * days)), slope)


def compute_chances(days: np.ndarray, values: np.ndarray, logarithms: bool) -> dict[str, float]:
    """Returns the kinds that the figures speak for with the chance of each, the best first; those
    that they speak against are left out. `logarithms`: True where the figures are logarithms."""
    other = AMOUNT if logarithms else FACTOR
    kinds = [LINE, BEND, other] if logarithms or values.min() > 0 else [LINE, BEND]
    shapes = {kind: fit_shape(kind, days, values) for kind in kinds}
    # The parabola nearly has both others in it: what it leaves is chance.
    count = _count_independent_days(values - shapes[BEND].evaluate(days))
    scores = {kind: _compute_criterion(shape, days, values, count) for kind, shape in shapes.items()}
    best = min(scores.values())
    # Chances of the kinds: the criterion's, and that most growth is straight.
    chances = {kind: math.exp((best - value) / 2.0) * PRIOR[kind] for kind, value in scores.items()}
    total = sum(chances.values())
    likely = {kind: chance / total for kind, chance in chances.items() if chance >= LEAST_CHANCE * total}
    return dict(sorted(likely.items(), key=lambda item: -item[1]))


def _compute_likeness(residuals: np.ndarray) -> float:
    """Returns how much each day resembles the day before, 0 to MOST_LIKENESS: the autocorrelation
    of days that follow each other."""
    centred = residuals - residuals.mean()
    power = float(centred @ centred)
    return min(MOST_LIKENESS, max(0.0, float(centred[1:] @ centred[:-1]) / power)) if power > 0 else 0.0


def _count_independent_days(residuals: np.ndarray) -> float:
    """Returns the number of independent days that say as much as these, each of which resembles the
    day before: a mean of n has the variance of one of n (1 - r) / (1 + r)."""
    likeness = _compute_likeness(residuals)
    return len(residuals) * (1.0 - likeness) / (1.0 + likeness)


def _compute_criterion(shape: GrowthShape, days: np.ndarray, values: np.ndarray, count: float) -> float:
    """Returns the Bayesian information criterion of a shape, the lower the better. `count`: of days
    that are independent."""
    rounding = ROUNDING * (float(np.ptp(values)) + abs(float(values.mean())))
    spread = max(float(np.abs(values - shape.evaluate(days)).mean()), rounding, LEAST_FIGURE)
    return 2.0 * count * math.log(spread) + PARAMETERS[shape.kind] * math.log(max(count, 2.0))


def _fit_bend(days: np.ndarray, values: np.ndarray) -> GrowthShape:
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
