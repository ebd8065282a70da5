"""A day made from what a DBA knows: the busy hour, the shape of the day, the nightly backup.

The shape is 24 factors, one an hour from midnight; the busiest is 1 and stands for the rates given.
Inside an hour the rate is even: a mean is all that is known of it, and a smooth curve would only
look more precise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.base.checks import check_choice, check_number, check_whole
from headrace.base.units import DAY_S
from headrace.workload.model import Arrivals, OpenWorkload
from headrace.workload.points import (
    ARRIVALS,
    MAX_GROWTH,
    MAX_IO_KIB,
    MAX_OPS_PER_S,
    MAX_SIZE_GIB,
    MIN_IO_KIB,
    make_points,
    refuse,
)

# Mean I/O of MySQL on EBS as measured by AWS: 16 KiB reads (InnoDB's page) and writes of about 22
# KiB.
# "Optimizing MySQL Running on Amazon EC2 Using Amazon EBS", AWS whitepaper, November 2017.
DEFAULT_READ_KIB = 16.0
DEFAULT_WRITE_KIB = 22.0
SIZES_SOURCE = "AWS whitepaper 'Optimizing MySQL Running on Amazon EC2 Using Amazon EBS', 2017"

# A backup reads files from end to end; Linux and EBS both take 256 KiB of that as one I/O (EBS
# guide, "I/O size").
BACKUP_READ_KIB = 256.0

MINUTES_OF_DAY = 1_440  # a point of a daily workload is a minute
# Beyond what one volume reads (io2: 4,000 MiB/s), for an array of them. Ours.
MAX_BACKUP_MIB_S = 100_000.0
MAX_DAYS, MAX_CONSTANT_DAYS = 366, 30  # ours: a year of days, a month of one rate

# Guessed, not measured: the usual forms of a day, to start from when no recording exists.
SHAPES: dict[str, tuple[float, ...]] = {
    "flat": (1.0,) * 24,
    "office": (
        0.10, 0.10, 0.10, 0.10, 0.10, 0.15, 0.25, 0.45, 0.75, 0.95, 1.00, 0.95,
        0.80, 0.85, 0.95, 0.95, 0.85, 0.65, 0.45, 0.30, 0.25, 0.20, 0.15, 0.10,
    ),
    "evening": (
        0.40, 0.25, 0.15, 0.10, 0.10, 0.10, 0.15, 0.20, 0.25, 0.30, 0.35, 0.35,
        0.40, 0.40, 0.40, 0.45, 0.50, 0.60, 0.70, 0.85, 1.00, 0.95, 0.80, 0.60,
    ),
    "two-peaks": (
        0.15, 0.10, 0.10, 0.10, 0.10, 0.15, 0.30, 0.50, 0.75, 0.95, 1.00, 0.85,
        0.60, 0.55, 0.55, 0.55, 0.60, 0.70, 0.85, 0.95, 0.95, 0.75, 0.45, 0.25,
    ),
}  # fmt: skip


def new_constant(
    reads_per_s: float,
    writes_per_s: float,
    *,
    name: str = "constant",
    read_kib: float = DEFAULT_READ_KIB,
    write_kib: float = DEFAULT_WRITE_KIB,
    seconds: int = 3_600,
    size_gib: float | None = None,
    sequential_read_share: float = 0.0,
    sequential_write_share: float = 0.0,
    arrivals: Arrivals = "poisson",
    growth_per_year: float = 0.0,
) -> OpenWorkload:
    """Makes a workload of the same rate all the time: I/Os a second, KiB an I/O, over `seconds` (1
    to 30 days). Raises InputError."""
    answers = {key: value for key, value in locals().items() if key != "name"}
    seconds = check_whole("seconds", seconds, 1, MAX_CONSTANT_DAYS * DAY_S)
    reads_per_s = check_number("reads_per_s", reads_per_s, 0.0, MAX_OPS_PER_S)
    writes_per_s = check_number("writes_per_s", writes_per_s, 0.0, MAX_OPS_PER_S)
    lengths = [float(DAY_S)] * (seconds // DAY_S) + ([float(seconds % DAY_S)] if seconds % DAY_S else [])
    count = len(lengths)
    points = make_points(
        [float(i * DAY_S) for i in range(count)],
        lengths,
        [reads_per_s] * count,
        [writes_per_s] * count,
        [check_number("read_kib", read_kib, MIN_IO_KIB, MAX_IO_KIB, "KiB")] * count,
        [check_number("write_kib", write_kib, MIN_IO_KIB, MAX_IO_KIB, "KiB")] * count,
    )
    return OpenWorkload(
        name=name,
        kind="constant",
        points=points,
        size_gib=size_gib,
        sequential_read_share=sequential_read_share,
        sequential_write_share=sequential_write_share,
        arrivals=arrivals,
        growth_per_year=growth_per_year,
        source=_make_source(answers),
    )


def new_daily(
    reads_per_s: float,
    writes_per_s: float,
    *,
    name: str = "daily",
    read_kib: float = DEFAULT_READ_KIB,
    write_kib: float = DEFAULT_WRITE_KIB,
    shape: str | list[float] | tuple[float, ...] = "office",
    night_floor: float = 0.1,
    backup_start_hour: float | None = None,
    backup_minutes: int = 60,
    backup_mib_s: float = 50.0,
    days: int = 1,
    size_gib: float | None = None,
    sequential_read_share: float = 0.0,
    sequential_write_share: float = 0.0,
    arrivals: Arrivals = "poisson",
    growth_per_year: float = 0.0,
) -> OpenWorkload:
    """Makes a workload of a day at one-minute points, repeated `days` times (1 to 366).

    `reads_per_s`, `writes_per_s`: means of the busiest hour. `read_kib`, `write_kib`: mean size of
    one I/O. `shape`: "flat", "office", "evening", "two-peaks", or 24 hourly factors from midnight;
    they are divided by the largest. `night_floor`: no hour falls below this share (0..1) of the
    busiest. `backup_start_hour`: 0..24, may be a fraction; None for no backup. It adds
    `backup_mib_s` of 256 KiB reads for `backup_minutes`. Raises InputError.
    """
    answers = {
        key: list(value) if isinstance(value, tuple) else value for key, value in locals().items() if key != "name"
    }
    reads_per_s = check_number("reads_per_s", reads_per_s, 0.0, MAX_OPS_PER_S)
    writes_per_s = check_number("writes_per_s", writes_per_s, 0.0, MAX_OPS_PER_S)
    read_kib = check_number("read_kib", read_kib, MIN_IO_KIB, MAX_IO_KIB, "KiB")
    write_kib = check_number("write_kib", write_kib, MIN_IO_KIB, MAX_IO_KIB, "KiB")
    floor = check_number("night_floor", night_floor, 0.0, 1.0)
    days = check_whole("days", days, 1, MAX_DAYS)
    factors = [max(floor, factor) for factor in compute_hourly_factors(shape)]
    reads = [reads_per_s * factors[minute // 60] for minute in range(MINUTES_OF_DAY)]
    writes = [writes_per_s * factors[minute // 60] for minute in range(MINUTES_OF_DAY)]
    sizes = [read_kib] * MINUTES_OF_DAY
    caveats = []
    if isinstance(shape, str) and shape != "flat":  # the user's own factors need no warning
        caveats.append(
            f"The {shape!r} day is a usual form, not a measurement: record a real day before you buy close to the edge."
        )
    if backup_start_hour is not None:
        minutes = list_backup_minutes(backup_start_hour, backup_minutes)
        add_backup(reads, sizes, minutes, backup_mib_s)
        caveats.append(describe_backup_caveat())
    count = MINUTES_OF_DAY * days
    points = make_points(
        [60.0 * i for i in range(count)], [60.0] * count, reads * days, writes * days, sizes * days, [write_kib] * count
    )
    return OpenWorkload(
        name=name,
        kind="daily",
        points=points,
        size_gib=size_gib,
        sequential_read_share=sequential_read_share,
        sequential_write_share=sequential_write_share,
        arrivals=arrivals,
        growth_per_year=growth_per_year,
        source=_make_source(answers) | {"clock_start": "00:00:00"},
        caveats=tuple(caveats),
    )


def compute_hourly_factors(shape: object) -> list[float]:
    """Returns 24 factors with a largest of 1, from a name in SHAPES or 24 numbers >= 0. Raises
    InputError."""
    if isinstance(shape, str):
        return list(SHAPES[check_choice("shape", shape, tuple(SHAPES))])
    if not isinstance(shape, (list, tuple)) or len(shape) != 24:
        count = len(shape) if isinstance(shape, (list, tuple)) else 1
        rule = "a day has 24 hourly factors, from midnight"
        raise refuse.input(f"shape with {count} factors", rule, f"Or name one of {', '.join(SHAPES)}.")
    numbers = [check_number(f"shape[{hour}]", factor, 0.0, 1e6) for hour, factor in enumerate(shape)]
    top = max(numbers)
    if top == 0.0:
        raise refuse.input("shape of 24 zeros", "at least one hour must be above 0")
    return [number / top for number in numbers]


def list_backup_minutes(start_hour: float, minutes: int) -> list[int]:
    """Returns the minutes of the day (0..1439) a backup runs in; it may run past midnight. Raises
    InputError."""
    start = int(check_number("backup_start_hour", start_hour, 0.0, 24.0, "h") * 60 + 0.5)
    length = check_whole("backup_minutes", minutes, 1, MINUTES_OF_DAY)
    return [(start + i) % MINUTES_OF_DAY for i in range(length)]


def add_backup(reads: list[float], sizes: list[float], minutes: list[int], mib_s: float) -> None:
    """Adds the reads of a backup, `mib_s` in I/Os of 256 KiB, to the rates `reads` and mean `sizes`
    (KiB) of these minutes of the day, which are changed: I/Os and bytes stay exact."""
    backup_iops = check_number("backup_mib_s", mib_s, 0.0, MAX_BACKUP_MIB_S, "MiB/s") * 1_024 / BACKUP_READ_KIB
    for minute in minutes:
        kib_s = reads[minute] * sizes[minute] + backup_iops * BACKUP_READ_KIB
        reads[minute] += backup_iops
        sizes[minute] = kib_s / reads[minute] if reads[minute] else 0.0


def describe_backup_caveat() -> str:
    """Returns the caveat on a backup that `add_backup` has merged into the points."""
    return (
        f"The backup is counted as extra reads of {BACKUP_READ_KIB:g} "
        "KiB each; I/Os and bytes of those minutes are exact, "
        "but their reads share one mean size, so a volume that "
        "counts 1 MiB runs (st1, sc1) looks worse than it would do."
    )


def _make_source(answers: dict) -> dict:
    """Returns the source of a workload, with the answers that are not None."""
    return {
        "tool": "headrace workload new",
        "answers": {key: value for key, value in answers.items() if value is not None},
    }


# --- asking ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """A question to the user. `validator` returns the value of a typed text, or raises InputError.
    Without a default (None) an empty answer is left out, or refused if the question is `required`.
    `only_if` names a question without whose answer this one is not asked.
    """

    name: str
    prompt: str
    unit: str
    default: object
    validator: Callable[[str], object]
    required: bool = False
    only_if: str | None = None


def list_questions() -> tuple[Question, ...]:
    """Returns the questions for a daily workload, in order; `from_answers` takes the answers."""
    return QUESTIONS


def from_answers(answers: dict) -> OpenWorkload:
    """Makes a daily workload from validated answers by the names of `list_questions`. Raises
    InputError."""
    return _call_checked(new_daily, answers)


def from_constant_answers(answers: dict) -> OpenWorkload:
    """Makes a constant workload from the arguments of `new_constant`. Raises InputError."""
    return _call_checked(new_constant, answers)


def _call_checked(maker: Callable, answers: dict) -> OpenWorkload:
    """Returns the workload that `maker` makes of the answers, without those that are None. Raises
    InputError for an unknown answer, and if a rate of the busy hour is missing."""
    code = maker.__code__
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    for key in answers:
        check_choice("answer", key, parameters)
    for needed in ("reads_per_s", "writes_per_s"):
        if answers.get(needed) is None:
            raise refuse.input(f"{needed} is missing", "the busy hour needs reads and writes a second")
    if "arrivals" in answers:
        check_choice("arrivals", answers["arrivals"], ARRIVALS)
    return maker(**{key: value for key, value in answers.items() if value is not None})


def parse_shape(text: str) -> str | list[float]:
    """Reads the name of a shape, or 24 numbers with spaces or commas between them. Raises
    InputError."""
    words = text.replace(",", " ").split()
    if len(words) <= 1:
        return check_choice("shape", text.strip(), tuple(SHAPES))
    shape = [_make_number_reader(f"shape[{hour}]", 0, 1e6)(word) for hour, word in enumerate(words[:25])]
    compute_hourly_factors(shape)
    return shape


def _make_number_reader(what: str, low: float, high: float, whole: bool = False) -> Callable[[str], float]:
    """Returns a function that reads a number from `low` to `high` out of a text, and raises
    InputError for any other."""

    def validate(text: str) -> float:
        try:
            value = int(text) if whole else float(text)
        except ValueError:
            raise refuse.input(f"{what} = {text[:40]!r}", f"must be a {'whole ' if whole else ''}number") from None
        return check_whole(what, value, int(low), int(high)) if whole else check_number(what, value, low, high)

    return validate


_RATE, _SIZE = (0, MAX_OPS_PER_S), (MIN_IO_KIB, MAX_IO_KIB)
QUESTIONS = (
    Question("name", "A name for this workload", "", "daily", str.strip),
    Question("reads_per_s", "Reads a second in the busy hour (iostat -x: r/s)", "I/Os a second", None,
             _make_number_reader("reads_per_s", *_RATE), required=True),
    Question("writes_per_s", "Writes a second in the busy hour (iostat -x: w/s)", "I/Os a second", None,
             _make_number_reader("writes_per_s", *_RATE), required=True),
    Question("read_kib", "Mean size of a read (iostat -x: rareq-sz)", "KiB", DEFAULT_READ_KIB,
             _make_number_reader("read_kib", *_SIZE)),
    Question("write_kib", "Mean size of a write (iostat -x: wareq-sz)", "KiB", DEFAULT_WRITE_KIB,
             _make_number_reader("write_kib", *_SIZE)),
    Question("shape", f"Shape of the day: {', '.join(SHAPES)}, or 24 numbers from midnight", "", "office",
             parse_shape),
    Question("night_floor", "The quietest hour, as a share of the busiest", "0 to 1", 0.1,
             _make_number_reader("night_floor", 0, 1)),
    Question("backup_start_hour", "Hour the nightly backup starts (empty: none)", "hour 0-24", None,
             _make_number_reader("backup_start_hour", 0, 24)),
    Question("backup_minutes", "Length of the backup", "minutes", 60,
             _make_number_reader("backup_minutes", 1, MINUTES_OF_DAY, whole=True), only_if="backup_start_hour"),
    Question("backup_mib_s", "Read rate of the backup", "MiB/s", 50.0,
             _make_number_reader("backup_mib_s", 0, MAX_BACKUP_MIB_S), only_if="backup_start_hour"),
    Question("size_gib", "Data the volume must hold (empty: not known)", "GiB", None,
             _make_number_reader("size_gib", 1e-9, MAX_SIZE_GIB)),
    Question("growth_per_year", "Growth a year (0.3 is 30 %)", "share", 0.0,
             _make_number_reader("growth_per_year", -0.9, MAX_GROWTH)),
)  # fmt: skip
