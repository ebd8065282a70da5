"""gp2 credits: how long a burst lasts, how long a refill takes, and what an fio run that drained a
volume says about both."""

from __future__ import annotations

from headrace.base import core
from headrace.simulation.demand import Simulation, simulate
from headrace.simulation.settings import Form
from headrace.studies import base
from headrace.workload import ClosedWorkload

STUDY = base.read_study("gp2_burst")
FIGURES = base.read_figures("gp2_burst")

AS_OF = "2020-07-13"
BALANCE_DAY = "2019-08-07"
# The fio run's device is /dev/xvda on a Xen instance; 2.1-2.6 % above nominal was measured on Xen
# in 2017 and 2020 (dyu, liangruibupt).
XEN_RATE_PER_MILLE = 1_025
# From the floor of 100 IOPS to the end of bursting.
SIZES_GIB = (8, 33, 100, 200, 250, 334, 500, 750, 900, 1000)
CURVE_SIZES_GIB = (8, 200, 500, 750)  # some of them
# (GiB, delivered over nominal rate in thousandths) of the repeated fio run.
FIO_RUNS = ((8, 1_000), *((size, XEN_RATE_PER_MILLE) for size in (8, 100, 200, 500)))
# "Very close to 0 percent" for a reader of a five-minute chart, %.
NEAR_ZERO_PERCENT = 10.0
# Deep enough to stay at 3,000 IOPS with 0.4 ms reads (3,000 x 0.4 ms = 1.2 outstanding), shallow
# enough not to matter.
BURST_LOAD = ClosedWorkload(name="16 KiB random reads, depth 32", rw="randread", bs_kib=16, iodepth=32, numjobs=1)


def get_gp2_limits(size_gib: int, as_of: str = AS_OF) -> core.VolumeLimits:
    """Returns the catalog's limits of a gp2 volume: `iops` (baseline), `io_burst` (or None)."""
    return base.get_limits(f"gp2:{size_gib}", as_of)


def get_bucket(size_gib: int, as_of: str = AS_OF) -> core.IoBurst:
    """Returns the credit bucket of a gp2 volume that bursts: `capacity_ios`, and the `iops` of a
    burst."""
    io_burst = get_gp2_limits(size_gib, as_of)["io_burst"]
    assert io_burst is not None, size_gib
    return io_burst


def compute_burst_s(size_gib: int, as_of: str = AS_OF) -> float | None:
    """Returns credits / (burst - baseline), s, as the article and AWS compute the length of a
    burst; None if the volume does not burst."""
    of = get_gp2_limits(size_gib, as_of)
    burst = of["io_burst"]
    return None if burst is None else burst["capacity_ios"] / (burst["iops"] - of["iops"])


def simulate_burst(
    size_gib: int, seconds: float, *, as_of: str = AS_OF, form: Form = "interval", **options: object
) -> Simulation:
    """Simulates a volume with full credits under a load that takes all IOPS."""
    interval_s = 1.0
    return simulate(
        BURST_LOAD, f"gp2:{size_gib}", as_of=as_of, seconds=seconds, interval_s=interval_s, form=form, options=options
    )


def simulate_refill(size_gib: int, as_of: str = AS_OF) -> Simulation:
    """Simulates a volume without credits and without load, until they are full."""
    seconds = get_bucket(size_gib, as_of)["capacity_ios"] / get_gp2_limits(size_gib, as_of)["iops"] + 120.0
    idle = base.make_constant_load(seconds)
    return simulate(idle, f"gp2:{size_gib}", as_of=as_of, start_balance=0.0, interval_s=60.0, form="interval")


def find_refill_s(run: Simulation) -> float | None:
    """Returns when a rising balance reached 100 %, s: interpolated inside the last row, which ends
    full."""
    balances = run.rows["balance_percent"].to_list()
    full = next((i for i, balance in enumerate(balances) if balance >= 100.0 - 1e-9), None)
    if full is None:
        return None
    per_row = balances[1] - balances[0]
    before = balances[full - 1]
    return float(run.rows["t_s"][full] + run.rows["duration_s"][0] * (100.0 - before) / per_row)


def drain_with_fio(size_gib: int, rate_per_mille: int) -> Simulation:
    """Simulates the article's fio run on a volume of this size, in the per-I/O form."""
    threads, bs_kib = int(FIGURES["fio_threads"].value), FIGURES["fio_block_kib"].value
    load = ClosedWorkload(name="fio", rw="randread", bs_kib=bs_kib, iodepth=1, numjobs=threads)
    options, seconds = {"rate_per_mille": rate_per_mille}, FIGURES["fio_seconds"].value
    return simulate(
        load, f"gp2:{size_gib}", as_of=AS_OF, seconds=seconds, interval_s=60.0, form="events", options=options
    )


def compute_device_gib() -> float:
    """Returns the size of the device of the fio run, GiB: derived, not published.

    A random map reads each block once and fio cuts the file size to the device, so each thread
    stops when it has read all of it; what all threads read is threads x device.
    """
    return FIGURES["fio_read_mib"].value / FIGURES["fio_threads"].value / 1024


def _run_fio(steps: base.StepProgress) -> tuple[list[base.Verdict], base.StudyTable]:
    """Repeats the fio run on each size and rate; returns verdicts and the table of I/Os and balance
    left in percent."""
    runs = {}
    for size, rate in FIO_RUNS:
        runs[size, rate] = drain_with_fio(size, rate)
        steps.step()
    seconds = FIGURES["fio_seconds"].value
    rows = []
    for (size, rate), run in runs.items():
        ios, balance = run.summary["delivered_ios"], run.rows["balance_percent"][-1]
        rows.append((size, rate / 10, round(ios), round(ios / seconds, 1), round(balance, 1)))
    table = base.tabulate("The fio run by volume size", "GiB | rate % | I/Os | IOPS | balance left %", rows)
    return _judge_fio(runs, seconds), table


def _judge_fio(runs: dict[tuple[int, int], Simulation], seconds: float) -> list[base.Verdict]:
    """Judges I/Os, IOPS, latency and final balance of the fio runs, by GiB and rate per mille.
    `seconds`: length of the run."""
    ios = FIGURES["fio_device_ios"]
    device_ms = base.Figure(FIGURES["fio_read_ticks_ms"].value / ios.value, "ms", ios.source)
    xen, nitro = runs[8, XEN_RATE_PER_MILLE], runs[8, 1_000]
    balance = {size: runs[size, XEN_RATE_PER_MILLE].rows["balance_percent"][-1] for size in (8, 200)}
    by_floor = "only a volume at the 100 IOPS floor ends near zero: a larger one earns too much back during the run"
    results = {
        "xen_ios": xen.summary["delivered_ios"],
        "nitro_ios": nitro.summary["delivered_ios"],
        "xen_iops": xen.summary["delivered_ios"] / seconds,
        "xen_mean_ms": base.require_figure(xen.summary["mean_ms"]),
    }
    return [
        *base.compare_figures("gp2_burst", results, {"device_ms": device_ms}),
        base.judge_answers(
            "burst balance at the end",
            "very close to 0 %",
            f"{balance[8]:.1f} % at 8 GiB, {balance[200]:.1f} % at 200 GiB",
            ios.source,
            balance[8] <= NEAR_ZERO_PERCENT,
            by_floor,
        ),
    ]


def _simulate_durations(steps: base.StepProgress) -> tuple[list[base.Verdict], base.StudyTable]:
    """Drains and refills buckets of all sizes; returns verdicts and the table of seconds, computed
    and simulated."""
    rows, empty_at_s = [], {}
    for size in SIZES_GIB:
        expected, baseline = compute_burst_s(size), get_gp2_limits(size)["iops"]
        steps.step()
        if expected is None:
            rows.append((size, baseline, None, None, None, None, None))
            continue
        empty_at_s[size] = simulate_burst(size, expected + 60.0, saved_second=False).summary["credits_empty_at_s"]
        with_saved = simulate_burst(size, expected + 60.0).summary["credits_empty_at_s"]
        computed_refill = get_bucket(size)["capacity_ios"] / baseline
        cells = (expected, empty_at_s[size], with_saved, computed_refill, find_refill_s(simulate_refill(size)))
        rows.append((size, baseline, *(None if cell is None else round(cell, 1) for cell in cells)))
    per_io = simulate_burst(500, 3_700.0, as_of=BALANCE_DAY, form="events", saved_second=False)
    steps.step()
    names = "GiB | baseline IOPS | burst s, computed | simulated | with the saved second | refill s, computed | refill simulated"
    title = "Burst at 3,000 IOPS from a full bucket, and refill of an empty one without load"
    return _judge_durations(empty_at_s, per_io), base.tabulate(title, names, rows)


def _judge_durations(empty_at_s: dict[int, float], per_io: Simulation) -> list[base.Verdict]:
    """Judges credits and seconds of bursts. `empty_at_s`: seconds until the balance is empty, by
    GiB; `per_io`: 500 GiB in the per-I/O form."""
    of = get_bucket(8)
    results = {
        "credits": of["capacity_ios"],
        "burst_iops": of["iops"],
        "without_refill_s": of["capacity_ios"] / of["iops"],
        "per_io_s": base.require_figure(per_io.summary["credits_empty_at_s"]),
        "per_interval_s": empty_at_s[500],
        "floor_s": empty_at_s[33],
    }
    return base.compare_figures("gp2_burst", results)


def _draw_charts(steps: base.StepProgress) -> tuple[base.ChartData, ...]:
    """Simulates bursts for two hours and draws their balance in percent, and the minutes of a burst
    by size."""
    series = []
    for size in CURVE_SIZES_GIB:
        run = simulate_burst(size, 2.0 * 3_600.0)
        minutes = [0.0] + [(t + d) / 60.0 for t, d in zip(run.rows["t_s"], run.rows["duration_s"], strict=True)]
        balances = [100.0, *run.rows["balance_percent"].to_list()]
        # One point a minute draws the same line.
        keep = range(0, len(minutes), 60)
        series.append(
            base.ChartSeries(
                f"{size} GiB", "simulated", tuple(minutes[i] for i in keep), tuple(balances[i] for i in keep)
            )
        )
        steps.step()
    published = FIGURES["burst_500_gib_s"]
    series.append(
        base.ChartSeries(f"500 GiB ({published.source})", "published", (0.0, published.value / 60.0), (100.0, 0.0))
    )
    durations = tuple(compute_burst_s(size) or 0.0 for size in SIZES_GIB[:-1])
    simulated = tuple(
        base.require_figure(simulate_burst(size, expected + 60.0).summary["credits_empty_at_s"])
        for size, expected in zip(SIZES_GIB, durations, strict=False)
    )
    bars = (
        base.ChartSeries(
            "AWS's formula: credits / (3,000 - baseline)",
            "published",
            SIZES_GIB[:-1],
            tuple(d / 60.0 for d in durations),
        ),
        base.ChartSeries("simulated", "simulated", SIZES_GIB[:-1], tuple(d / 60.0 for d in simulated)),
    )
    return (
        base.ChartData("Burst balance under 3,000 IOPS", "line", "time (min)", "burst balance (%)", tuple(series)),
        base.ChartData("Burst duration by size", "bar", "size (GiB)", "burst (min)", bars),
    )


def run(progress: base.Progress | None = None) -> base.StudyResult:
    """Repeats the fio run on several sizes, then drains and refills buckets from 8 to 1000 GiB."""
    steps = base.StepProgress(len(FIO_RUNS) + len(SIZES_GIB) + 1 + len(CURVE_SIZES_GIB), progress)
    fio_verdicts, fio_table = _run_fio(steps)
    verdicts, durations = _simulate_durations(steps)
    charts = _draw_charts(steps)
    size = compute_device_gib()
    notes = base.read_notes("gp2_burst", read_gib=size * 10, device_gib=size)
    return base.StudyResult(STUDY, (*fio_verdicts, *verdicts), (fio_table, durations), charts, notes)
