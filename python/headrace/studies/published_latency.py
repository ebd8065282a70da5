"""The model's latency against every measured run we could read.

Each run is simulated as it was made: same storage, instance, day, fio load. The real runs contain
the second of saved tokens a rested volume delivers at once, so ours do too, unless they are cut
short and it would weigh more than it did. Published quantiles come from fio's and ioping's own
histograms: old fio text has buckets of up to 1.6 % (64 to an octave) and whole milliseconds above
some 100 ms.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product

import msgspec

from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.simulation.demand import Simulation, simulate
from headrace.studies import base
from headrace.workload import ClosedWorkload

STUDY = base.read_study("published_latency")

# The goal set for the model: p50 within 3 %, p99 within 10 %. Two sets of one volume type differ by
# 10-20 % between hosts (io2 on c6a and m6a, fdatasync of two gp2 volumes), so a single profile
# cannot meet 3 % on all of them.
TOLERANCE_PERCENT = {"p50": 3.0, "p99": 10.0}
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
# A run is at the cap when it delivered at least this share of it: pacing then decides its latency.
AT_CAP_SHARE = 0.97
# Longest run simulated, I/Os. p99.9 of 1 million has 1,000 above it: a spread of 3 % in rank, and
# p99 (10,000 above it) of 1 %.
MAX_IOS = 1_000_000
FAMILIES = ("gp2", "gp3", "io1", "io2")
REGIMES = ("below the cap", "at the cap")
# Runs drawn and judged one by one: one of each family, below the cap where there is such a run.
DRAWN = {
    ("4xgp2:3000", "randwrite", 16): "gp2 x 4, 16 KiB writes, depth 16",
    ("gp2:1000", "randread", 16): "gp2 at 3,000 IOPS, 16 KiB reads, depth 16",
    ("gp3:1000:3000:250", "randread", 16): "gp3 at 3,000 IOPS, 16 KiB reads, depth 16",
    ("io1:2048:40000", "randwrite", 16): "io1, 16 KiB writes, depth 16",
    ("io2bx:100:60000", "randread", 16): "io2 Block Express, 16 KiB reads, depth 16",
}


@dataclass(frozen=True)
class LatencyRun:
    """A measured run and what is needed to repeat it. Latencies in us, if published."""

    family: str
    storage: str
    instance: str | None
    as_of: str
    rate_per_mille: int
    rested: bool
    rw: str
    bs_kib: float
    jobs: int
    iodepth: int
    runtime_s: float
    iops: float
    latency_us: dict[str, float]
    note: str
    source: base.Source

    @property
    def depth(self) -> int:
        """Returns the number of outstanding requests of all jobs."""
        return self.jobs * self.iodepth

    @property
    def iodepth_in_flight(self) -> int:
        """The requests that a job had at the device: on Nitro mean latency x IOPS (Little's law),
        at most `iodepth`.

        fio's completion latency begins when a request is submitted. While a job prepares one
        request the others are in flight: of 32 about 31 (12,334 us x 40,216 / s = 496 = 16 x 31),
        of 16 about 15. On Xen the median itself (167 ms) is 512 / IOPS: all were in the queue, and
        the mean is lower only because submissions that had to wait for the one queue of 128 are
        timed from its end.
        """
        mean_us = self.latency_us.get("mean")
        if mean_us is None or self.rate_per_mille > 1_000:
            return self.iodepth
        return min(max(round(mean_us * self.iops / 1e6 / self.jobs), 1), self.iodepth)

    @property
    def seconds(self) -> float:
        """The simulated time, s: as long as measured, but at most `MAX_IOS` requests, and at least
        10 s."""
        return max(min(self.runtime_s, MAX_IOS / self.iops), 10.0)


def read_measured_runs() -> tuple[list[LatencyRun], list[dict[str, str]]]:
    """Returns the runs that can be compared, and the rows of those that cannot, with
    `skipped_because`."""
    rows = base.read_published("latency")
    clean = [_convert_row(row) for row in rows if not row["skipped_because"]]
    return clean, [row for row in rows if row["skipped_because"]]


def _convert_row(row: dict[str, str]) -> LatencyRun:
    """Converts a row of the table into a run; latencies in us by quantile, `instance` None where it
    was not published."""
    facts = {
        "instance": row["instance"] or None,
        "rested": row["rested"] == "yes",
        "latency_us": {name: row[f"{name}_us"] for name in ("mean", *QUANTILES) if row[f"{name}_us"]},
        "source": {"citation": row["source"], "date": row["date"]},
    }
    return msgspec.convert(row | facts, LatencyRun, strict=False)


def repeat(run: LatencyRun, seed: int = 1) -> Simulation:
    """Simulates a measured run in the per-I/O form."""
    # ioping and diskplorer send requests at a rate of their own, far below what their depth allows,
    # or publish no mean: an open load.
    mean_us = run.latency_us.get("mean")
    paced = mean_us is None or (run.depth == 1 and run.iops * mean_us < 0.5e6)
    if paced:
        # More requests than were measured: below the cap the rate does not matter, and our own
        # sampling error should not.
        rate, seconds = max(run.iops, 1_000.0), 100.0
        load = base.make_constant_load(seconds, reads=rate, read_kib=run.bs_kib)
    else:
        seconds = run.seconds
        load = ClosedWorkload(name="fio", rw=run.rw, bs_kib=run.bs_kib, iodepth=run.iodepth_in_flight, numjobs=run.jobs)
    options = {"rate_per_mille": run.rate_per_mille, "saved_second": run.rested and seconds >= run.runtime_s}
    length = None if paced else seconds
    return simulate(
        load,
        run.storage,
        instance=run.instance,
        as_of=run.as_of,
        seconds=length,
        interval_s=seconds,
        seed=seed,
        form="events",
        options=options,
    )


@dataclass(frozen=True)
class Compared:
    """A measured run and its simulation: latencies in us, errors in percent."""

    run: LatencyRun
    regime: str
    iops: float
    ours_us: dict[str, float]
    error: dict[str, float]


def _compare(run: LatencyRun) -> Compared:
    """Repeats a run and returns our latencies in us and their errors in percent."""
    repeated = repeat(run)
    simulated_us = {name: 1e3 * repeated.summary[f"{name}_ms"] for name in ("mean", *QUANTILES)}
    error = {
        name: base.compute_error_percent(simulated_us[name], published_us)
        for name, published_us in run.latency_us.items()
    }
    regime = REGIMES[run.iops >= AT_CAP_SHARE * compute_cap_iops(run)]
    return Compared(run, regime, base.compute_iops(repeated), simulated_us, error)


def compute_cap_iops(run: LatencyRun) -> float:
    """Returns the requests of this size a second that volume and instance let through, by the
    catalog of the day (the burst speed of those that burst)."""
    with translate_core_errors():
        members = core.storage_limits(run.storage, run.as_of, run.instance)
        instance = core.instance(run.instance, run.as_of) if run.instance else {}
    request_bytes = run.bs_kib * 1024
    caps = [0.0]
    for member in members:
        units = max(request_bytes / member["io_unit_bytes"], 1.0)
        iops = member["io_burst"]["iops"] if member["io_burst"] else member["iops"]
        caps[0] += min(iops / units, member["throughput_bytes_s"] / request_bytes)
    if (iops := instance.get("max_iops")) and (bytes_s := instance.get("max_bytes_s")):
        caps += [iops, bytes_s / request_bytes]
    return min(caps)


def run(progress: base.Progress | None = None) -> base.StudyResult:
    """Repeats every clean run and compares p50, p95, p99 and p99.9."""
    clean, skipped = read_measured_runs()
    steps = base.StepProgress(len(clean), progress)

    # The core releases the interpreter's lock while it runs, so two threads use two cores; the
    # order of results does not depend on them.
    compared = []
    with ThreadPoolExecutor(max_workers=2) as pool:
        for comparison in pool.map(_compare, clean):
            compared.append(comparison)
            steps.step()
    tables = (_tabulate_runs(compared), _tabulate_shares(compared), _tabulate_skipped(skipped))
    notes = base.read_notes("published_latency", compared=len(clean), skipped=len(skipped))
    return base.StudyResult(STUDY, _judge_runs(compared), tables, _draw_charts(compared), notes)


def _compute_shares(
    compared: list[Compared], family: str | None, regime: str | None, quantile: str
) -> tuple[int, int, float, float]:
    """Returns the runs within tolerance, the runs, the median |error| %, and the mean error % of a
    group."""
    chosen = [
        c for c in compared if (family is None or c.run.family == family) and (regime is None or c.regime == regime)
    ]
    errors = [c.error[quantile] for c in chosen if quantile in c.error]
    sizes = sorted(abs(error) for error in errors)
    if not sizes:
        return 0, 0, float("nan"), float("nan")
    middle = (sizes[(len(sizes) - 1) // 2] + sizes[len(sizes) // 2]) / 2
    return sum(size <= TOLERANCE_PERCENT[quantile] for size in sizes), len(sizes), middle, sum(errors) / len(errors)


def _list_groups() -> list[tuple[str | None, str | None]]:
    return [(None, None), *product((None, *FAMILIES), REGIMES)]


def _tabulate_shares(compared: list[Compared]) -> base.StudyTable:
    """Tabulates by volume, regime and quantile how many runs lie within the tolerance, and their
    errors in percent."""
    rows = []
    for family, regime in _list_groups():
        for quantile, tolerance in TOLERANCE_PERCENT.items():
            within, total, middle, mean = _compute_shares(compared, family, regime, quantile)
            if total:
                shares = (tolerance, within, total, round(100 * within / total), round(middle, 1), round(mean, 1))
                rows.append((family or "all", regime or "all", quantile, *shares))
    names = "volume | regime | quantile | tolerance % | within | runs | share % | median |error| % | mean error %"
    return base.tabulate("Share of runs within tolerance", names, rows)


def _tabulate_runs(compared: list[Compared]) -> base.StudyTable:
    """Tabulates every run with its latencies in us, published and ours, and their errors in
    percent."""
    names = "volume | regime | storage | instance | as of | load | KiB | depth | IOPS | ours"
    for name in ("mean", *QUANTILES):
        names += f" | {name} us | ours | error %"
    rows = []
    for c in sorted(compared, key=lambda c: (FAMILIES.index(c.run.family), -REGIMES.index(c.regime))):
        r = c.run
        load = (r.as_of, r.rw, r.bs_kib, r.depth, round(r.iops), round(c.iops))
        row = [r.family, c.regime, r.storage, r.instance, *load]
        for name in ("mean", *QUANTILES):
            published_us, error = r.latency_us.get(name), c.error.get(name)
            row += [published_us, round(c.ours_us[name], 1), None if error is None else round(error, 1)]
        rows.append((*row, r.note, str(r.source)))
    return base.tabulate("Every run", f"{names} | note | source", rows)


def _tabulate_skipped(skipped: list[dict[str, str]]) -> base.StudyTable:
    """Tabulates the runs that were left out, each with the reason."""
    columns = ("family", "storage", "rw", "bs_kib", "iops", "skipped_because")
    rows = [(*(r[name] for name in columns), f"{r['source']}, {r['date']}") for r in skipped]
    return base.tabulate("Runs left out", "volume | storage | load | KiB | IOPS | because | source", rows)


def _judge_runs(compared: list[Compared]) -> tuple[base.Verdict, ...]:
    """Judges p50 and p99 of the drawn runs as numbers, then the shares of every group in words."""
    verdicts = []
    for title, c in _choose_drawn(compared):
        for name, tolerance in TOLERANCE_PERCENT.items():
            figure = base.Figure(c.run.latency_us[name] / 1e3, "ms", c.run.source)
            verdicts.append(base.compare(f"{title}: {name}", figure, c.ours_us[name] / 1e3, tolerance, c.regime))
    for family, regime in _list_groups()[1:]:
        for name in TOLERANCE_PERCENT:
            chosen = [c for c in compared if family in (None, c.run.family) and c.regime == regime and name in c.error]
            if chosen:
                verdicts.append(_judge_group(family, regime, name, chosen))
    return tuple(verdicts)


def _judge_group(family: str | None, regime: str | None, name: str, chosen: list[Compared]) -> base.Verdict:
    """Judges the share of runs of a group within the tolerance of the quantile `name`; None: of all
    families or regimes."""
    tolerance = TOLERANCE_PERCENT[name]
    within, total, middle, mean = _compute_shares(chosen, family, regime, name)
    years = sorted({c.run.source.date[:4] for c in chosen})
    citations = sorted({c.run.source.citation.split(":")[0] for c in chosen})
    source = base.Source(", ".join(citations), "-".join(dict.fromkeys((years[0], years[-1]))))
    worst = max(chosen, key=lambda c: abs(c.error[name]))
    note = (
        f"errors: mean {mean:+.1f} %, median size {middle:.1f} %; furthest: {worst.run.storage} {worst.run.rw} "
        f"{worst.run.bs_kib:g} KiB "
        f"depth {worst.run.depth}, {worst.error[name]:+.1f} %"
    )
    count = f"{within} of {total} within {tolerance:g} %"
    what = f"{family or 'all volumes'}, {regime}: {name}"
    return base.Verdict(what, f"{total} runs", count, "", None, within == total, tolerance, source, note)


def _choose_drawn(compared: list[Compared]) -> list[tuple[str, Compared]]:
    """Chooses the runs of 16 KiB that are drawn, one for each title."""
    by_title = {}
    for c in compared:
        title = DRAWN.get((c.run.storage, c.run.rw, c.run.depth))
        if title is not None and c.run.bs_kib == 16:
            by_title.setdefault(title, c)
    return list(by_title.items())


def _draw_charts(compared: list[Compared]) -> tuple[base.ChartData, ...]:
    """Draws quantiles of the chosen runs in ms, and the error of every run in percent."""
    charts = []
    for title, c in _choose_drawn(compared):
        x = tuple(QUANTILES.values())
        published = base.ChartSeries(
            str(c.run.source), "published", x, tuple(c.run.latency_us[name] / 1e3 for name in QUANTILES)
        )
        simulated = base.ChartSeries("model", "simulated", x, tuple(c.ours_us[name] / 1e3 for name in QUANTILES))
        charts.append(
            base.ChartData(f"{title} ({c.regime})", "quantiles", "quantile", "latency (ms)", (published, simulated))
        )
    errors = []
    for name in TOLERANCE_PERCENT:
        comparable = [c for c in compared if name in c.error]
        at = tuple(c.run.latency_us["p50"] / 1e3 for c in comparable)
        errors.append(base.ChartSeries(f"{name} error", "simulated", at, tuple(c.error[name] for c in comparable)))
    charts.append(
        base.ChartData("Error of every run", "scatter", "published p50 (ms)", "ours / published - 1 (%)", tuple(errors))
    )
    return tuple(charts)
