"""Chooses the volume type for each need: an article's answers of 2020 and the catalog's for that
day, and for today.

No answer is written down here. Each question is a rule over the catalog (limits, prices,
consistency) or a simulation, asked on several days; what the catalog knew on a day decides. The
article has eight questions and answers a ninth (the cheapest SSD); all nine are here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.base.units import DAY_S
from headrace.errors import InputError
from headrace.simulation.demand import simulate
from headrace.studies import base
from headrace.workload import ClosedWorkload

STUDY = base.read_study("choices")
ARTICLE = STUDY.sources[0]

ARTICLE_DAY = "2020-07-13"
# The article's "EBS max as of April 2018".
CAP_DAY = "2018-04-30"
TODAY = "2026-11-01"
DAYS = (CAP_DAY, ARTICLE_DAY, TODAY)
EBS_TYPES = ("standard", "gp2", "gp3", "io1", "io2", "st1", "sc1")

# Our figures for the words of the questions: the article gives none.
# A volume fit for random I/O does 1,000 random 16 KiB requests a second; disks do 100-500 of any
# size.
RANDOM_IOPS = 1_000
SSD_SIZE_GIB, SSD_IOPS = 500, 1_500  # a small database
SCAN_SIZE_GIB = 4_096  # a large one
# Large sequential: one scan of the data at 200 MiB/s. Warehouse: 150 MiB/s all day, scan after
# scan.
SCAN_MIB_S = 200.0
WAREHOUSE_MIB_S = 150.0
MANY_IOPS = 80_001  # more than 80,000
RANGE_IOPS = 20_000  # the upper end of 10,000 to 20,000
RANGE_SIZE_GIB = 1_000  # io1 of 2020 needs 400 for 20,000 IOPS
# 1 MiB requests in order, eight in flight: what a table scan or a backup sends.
SCAN = ClosedWorkload(name="scan", rw="read", bs_kib=1024, iodepth=8, numjobs=1)


@dataclass(frozen=True)
class TypeAnswer:
    """Names of types (or an instance family), the best first, and the figures that chose them."""

    names: tuple[str, ...]
    because: str

    def __str__(self) -> str:
        return ", ".join(self.names) or "none"


def _find_spec(volume_type: str, size_gib: int, iops: int | None, mib_s: int | None, day: str) -> str | None:
    """Returns the notation of a volume with at least these IOPS and MiB/s on a day, or None if the
    catalog refuses it."""
    provisioned = volume_type in ("gp3", "io1", "io2")
    text = f"{volume_type}:{size_gib}"
    if provisioned:
        text += f":{max(iops or 0, 3_000 if volume_type == 'gp3' else 100)}"
        if volume_type == "gp3" and mib_s:
            text += f":{max(mib_s, 125)}"
    try:
        limits = base.get_limits(text, day)
    except InputError:  # the catalog says why; here only that it cannot be had matters
        return None
    return text if iops is None or (limits["iops"] or 0) >= iops else None


def _get_eras(day: str) -> dict[str, core.Era]:
    """Returns the limits of EBS volume types on a day, by name."""
    with translate_core_errors():
        return {era["volume_type"]: era for era in core.volume_eras(day) if era["volume_type"] in EBS_TYPES}


def _is_disk(era: core.Era) -> bool:
    """Returns whether a type is st1 or sc1, which charge a whole unit of 1 MiB for a random or
    small request."""
    return era["random_charges_full_unit"]


def find_max_volume_iops(volume_type: str, day: str) -> int:
    """Returns the most IOPS of a single volume of a type on a day, by trying the largest volume
    with ever more provisioned IOPS."""
    size = _get_eras(day)[volume_type]["size_gib"]["max"]["value"]
    if volume_type not in ("gp3", "io1", "io2"):
        return int(base.get_limits(f"{volume_type}:{size}", day)["iops"])
    low, high = 100, 1_000_000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _find_spec(volume_type, size, middle, None, day) else (low, middle)
    return low


def _rank_by_cost(specs: dict[str, str | None], day: str) -> TypeAnswer:
    """Returns volume types by the USD a month of their storage in `specs`, the cheapest first,
    without those that have none (None)."""
    priced = sorted(
        (base.compute_monthly_usd(spec, day), name, spec) for name, spec in specs.items() if spec is not None
    )
    return TypeAnswer(
        tuple(name for _, name, _ in priced), "; ".join(f"{spec} {usd:.2f} USD/month" for usd, _, spec in priced)
    )


def choose_random_io(day: str) -> TypeAnswer:
    """Returns the SSD types of the day that do enough random requests."""
    most_iops = {name: find_max_volume_iops(name, day) for name, era in _get_eras(day).items() if not _is_disk(era)}
    fit = {name: iops for name, iops in most_iops.items() if iops >= RANDOM_IOPS}
    return TypeAnswer(tuple(fit), ", ".join(f"{name} up to {iops:,} IOPS a volume" for name, iops in fit.items()))


def choose_cheap_ssd(day: str) -> TypeAnswer:
    """Returns the cheapest SSD volume of 500 GiB with 1,500 IOPS."""
    ssd = [name for name, era in _get_eras(day).items() if not _is_disk(era)]
    answer = _rank_by_cost({name: _find_spec(name, SSD_SIZE_GIB, SSD_IOPS, None, day) for name in ssd}, day)
    return TypeAnswer(answer.names[:1], answer.because)


def _find_scanners(day: str, mib_s: float, seconds: float) -> TypeAnswer:
    """Returns the volumes of 4 TiB whose simulated scan reaches `mib_s` for `seconds`, the cheapest
    first."""
    specs = {}
    for name in _get_eras(day):
        iops = int(4 * mib_s) if name in ("io1", "io2") else None  # 256 KiB units: four to a MiB
        size = 1_024 if name == "standard" else SCAN_SIZE_GIB
        spec = _find_spec(name, size, iops, int(mib_s), day)
        if spec is None or size < SCAN_SIZE_GIB:
            continue
        run = simulate(SCAN, spec, as_of=day, seconds=seconds, interval_s=300.0, form="interval")
        if run.summary["delivered_bytes"] / 2**20 / run.summary["seconds"] >= mib_s:
            specs[name] = spec
    return _rank_by_cost(specs, day)


def choose_large_sequential_ebs(day: str) -> TypeAnswer:
    """Returns the two cheapest EBS types that hold 4 TiB and scan it once at 200 MiB/s."""
    answer = _find_scanners(day, SCAN_MIB_S, SCAN_SIZE_GIB * 1_024 / SCAN_MIB_S)
    return TypeAnswer(answer.names[:2], answer.because)


def find_dense_family(day: str) -> tuple[str, str]:
    """Returns the instance family with the cheapest GB of local disks, and the figure.

    Types without known EBS limits are passed over: they are the ones from before 2014 (hs1, i2), of
    which the catalog cannot say until when they were sold.
    """
    with translate_core_errors():
        priced = [
            (1_000.0 * price["usd"] / instance["instance_store_gb"], instance["instance_type"])
            for instance in core.instances(day)
            if instance["instance_store_gb"] >= 1_000
            and instance["max_iops"] is not None
            and (price := core.instance_price(instance["instance_type"], base.REGION, day)) is not None
        ]
    per_tb_hour, name = min(priced, key=lambda entry: entry[0])
    return name.split(".")[0], f"{name} {per_tb_hour:.3f} USD per TB of local disk and hour, the least of the day"


def choose_large_sequential(day: str) -> TypeAnswer:
    """Returns the two cheapest EBS types that hold 4 TiB and scan it, and the instance family with
    the cheapest local disks."""
    ebs = choose_large_sequential_ebs(day)
    family, why = find_dense_family(day)
    return TypeAnswer((*ebs.names, family), f"{ebs.because}; {why}")


def choose_data_warehouse(day: str) -> TypeAnswer:
    """Returns the cheapest type that scans at 150 MiB/s all day."""
    answer = _find_scanners(day, WAREHOUSE_MIB_S, DAY_S)
    return TypeAnswer(answer.names[:1], answer.because)


def choose_10k_to_20k(day: str) -> TypeAnswer:
    """Returns the cheapest single volume of 1,000 GiB that covers the whole range."""
    answer = _rank_by_cost(
        {name: _find_spec(name, RANGE_SIZE_GIB, RANGE_IOPS, None, day) for name in _get_eras(day)}, day
    )
    return TypeAnswer(answer.names[:1], answer.because or "no single volume reaches it")


def find_max_ebs_iops(day: str) -> int:
    """Returns the most EBS IOPS of any instance of the day, by the instance table."""
    with translate_core_errors():
        return max(instance["max_iops"] or 0 for instance in core.instances(day))


def choose_over_80k(day: str) -> TypeAnswer:
    """Returns a single volume with the IOPS if there is one, else a stripe on an instance whose
    limits allow them, else local disks."""
    single = {name: top for name in _get_eras(day) if (top := find_max_volume_iops(name, day)) >= MANY_IOPS}
    most = find_max_ebs_iops(day)
    if single and most >= MANY_IOPS:
        return TypeAnswer(
            tuple(single),
            ", ".join(f"{name} {top:,} IOPS a volume" for name, top in single.items())
            + f"; an instance passes up to {most:,}",
        )
    if most >= MANY_IOPS:
        return TypeAnswer(
            ("striped io1", "instance-store"), f"no volume reaches it, but a few instances pass up to {most:,} EBS IOPS"
        )
    return TypeAnswer(
        ("instance-store",), f"no instance passes more than {most:,} EBS IOPS; {_describe_cheapest_local(day)}"
    )


def _describe_cheapest_local(day: str) -> str:
    """Returns the cheapest instance whose documented local write IOPS are enough."""
    local = []
    with translate_core_errors():
        for instance in core.instances(day):
            name, disks = instance["instance_type"], instance["instance_store_devices"]
            price = core.instance_price(name, base.REGION, day) if disks else None
            if price is None:
                continue
            of = base.get_limits("instance-store:1", day, name)
            documented = any(caveat["field"] == "iops.documented" for caveat in of["caveats"])
            if documented and of["iops"] * disks >= MANY_IOPS:
                local.append((price["usd"], name, of["iops"] * disks))
    if not local:
        return "local disks"
    usd, name, iops = min(local, key=lambda entry: entry[0])
    return f"{name} has {iops:,} local write IOPS for {usd:.3f} USD an hour"


def _get_yearly_failures(era: core.Era) -> float:
    """Returns the upper end of the promised annual failure rate of a type, percent."""
    promised = era.get("durability_afr_percent")
    assert promised is not None, era
    return promised["value"][1]


def choose_consistent(day: str) -> TypeAnswer:
    """Returns the SSD types with the highest promised consistency; the cheapest first, among equals
    the more durable."""
    promised = {
        name: promise["value"]["of_time_percent"]
        for name, era in _get_eras(day).items()
        if (promise := era.get("consistency")) is not None
    }
    best = max(promised.values())
    durable = {name: _get_yearly_failures(era) for name, era in _get_eras(day).items() if name in promised}
    names = sorted(
        (name for name, of_time in promised.items() if of_time == best), key=lambda name: (durable[name], name)
    )
    return TypeAnswer(
        tuple(names),
        "; ".join(
            f"{name} within 10 % for {promised[name]} % of the time, yearly failures up to {durable[name]} %"
            for name in names
        ),
    )


def choose_cheap_hdd(day: str) -> TypeAnswer:
    """Returns the cheapest disk volume of 4 TiB."""
    disks = [name for name, era in _get_eras(day).items() if _is_disk(era)]
    answer = _rank_by_cost({name: _find_spec(name, SCAN_SIZE_GIB, None, None, day) for name in disks}, day)
    return TypeAnswer(answer.names[:1], answer.because)


# (key in published/choices.csv, the question as we understand it, the rule)
QUESTIONS: tuple[tuple[str, str, Callable[[str], TypeAnswer]], ...] = (
    (
        "random",
        f"random I/O: at least {RANDOM_IOPS:,} random 16 KiB requests a second from one volume",
        choose_random_io,
    ),
    ("ssd-cheap", f"SSD where cost matters: {SSD_SIZE_GIB} GiB with {SSD_IOPS:,} IOPS", choose_cheap_ssd),
    (
        "large-sequential-ebs",
        f"large sequential I/O on EBS: scan {SCAN_SIZE_GIB} GiB once at {SCAN_MIB_S:g} MiB/s, the two cheapest",
        choose_large_sequential_ebs,
    ),
    (
        "large-sequential",
        "large sequential I/O on anything: the same, and the cheapest local disks",
        choose_large_sequential,
    ),
    (
        "10k-20k-iops",
        f"SSD for 10,000-20,000 IOPS: one volume of {RANGE_SIZE_GIB:,} GiB that covers the range",
        choose_10k_to_20k,
    ),
    (
        "data-warehouse",
        f"data warehouse: scan at {WAREHOUSE_MIB_S:g} MiB/s all day on {SCAN_SIZE_GIB} GiB",
        choose_data_warehouse,
    ),
    ("over-80k-iops", "SSD for more than 80,000 IOPS", choose_over_80k),
    ("consistent", "SSD for critical work that needs consistent performance", choose_consistent),
    ("hdd-cheap", "disk where cost matters", choose_cheap_hdd),
)


def run(progress: base.Progress | None = None) -> base.StudyResult:
    """Answers every question on each day, and judges the answers of the article."""
    answers_of = {row["question"]: row for row in base.read_published("choices")}
    steps = base.StepProgress(len(QUESTIONS) * len(DAYS) + 1, progress)
    verdicts, rows = [], []
    for key, question, rule in QUESTIONS:
        row = answers_of[key]
        source = base.Source(row["source"], row["date"])
        published = tuple(row["answer"].split())
        answers = {}
        for day in DAYS:
            answers[day] = rule(day)
            steps.step()
            rows.append(
                (
                    question,
                    day,
                    ", ".join(published) if day == ARTICLE_DAY else "",
                    str(answers[day]),
                    answers[day].because,
                )
            )
        verdicts.append(_judge_question(question, published, answers, source))
    verdicts.append(_cap_verdict(answers_of["ebs-max-iops"]))
    steps.step()
    notes = base.read_notes("choices")
    table = base.tabulate("Answers by day", "question | day | the article | ours | because", rows)
    return base.StudyResult(STUDY, tuple(verdicts), (table,), (_draw_most_iops(),), notes)


def _judge_question(
    question: str, published: tuple[str, ...], answers: dict[str, TypeAnswer], source: base.Source
) -> base.Verdict:
    """Judges a question: the article's answer against ours of its day, with what has changed since
    in the note."""
    then, now = answers[ARTICLE_DAY], answers[TODAY]
    same = set(published) == set(then.names)
    note = f"{ARTICLE_DAY}: {then.because}"
    if not same and set(published) == set(answers[CAP_DAY].names):
        note += f". The answer is that of {CAP_DAY}: {answers[CAP_DAY].because}"
    if set(now.names) == set(then.names):
        note += f". Still so on {TODAY}"
    else:
        new = [name for name in now.names if name not in then.names]
        note += f". On {TODAY}: {now}" + (f"; new since: {', '.join(new)}" if new else "") + f" ({now.because})"
    return base.judge_answers(question, ", ".join(published), str(then), source, same, note)


def _cap_verdict(row: dict[str, str]) -> base.Verdict:
    """Judges the most EBS IOPS of any instance on CAP_DAY against the figure in `row`."""
    note = (
        f"largest EBS IOPS of any instance in the catalog; {find_max_ebs_iops(ARTICLE_DAY):,} on {ARTICLE_DAY}, "
        f"{find_max_ebs_iops(TODAY):,} "
        f"on {TODAY}"
    )
    figure = base.Figure(float(row["answer"]), "IOPS", base.Source(row["source"], row["date"]))
    return base.compare(f"most EBS IOPS on {CAP_DAY}", figure, find_max_ebs_iops(CAP_DAY), 0.0, note)


def _draw_most_iops() -> base.ChartData:
    """Draws the most IOPS of one volume over the years, by type."""
    days = ("2014-07-01", "2016-07-01", CAP_DAY, ARTICLE_DAY, "2022-07-01", "2024-07-01", TODAY)
    series = []
    for name in ("gp2", "gp3", "io1", "io2"):
        points = [(day, find_max_volume_iops(name, day)) for day in days if name in _get_eras(day)]
        series.append(
            base.ChartSeries(name, "published", tuple(day for day, _ in points), tuple(top for _, top in points))
        )
    return base.ChartData("Most IOPS of one volume, by the limits AWS published", "line", "day", "IOPS", tuple(series))
