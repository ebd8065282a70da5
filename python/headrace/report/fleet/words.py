"""The answers for a fleet in words and rows. `answers`: a sequence of
`operate.fleet.answer.VolumeAnswer`, in the order in which they are to stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.report.tables import table
from headrace.report.words import latency, number, percent, usd

COLUMNS = ("count", "volumes", "today", "wanted", "USD/month", "then", "saves", "risk", "p99", "why")
UNUSED = ("count", "volumes", "today", "saves", "why")
RIGHT = ("USD/month", "then", "saves", "count")
KEEP = ("today", "wanted")
PROSE = ("why",)
DROP = ("p99", "USD/month", "then")
WITHHELD = ("volume", "name", "instance", "today", "why")
BOUND = ("instance", "count", "volumes", "today", "why")
REASONS = ("count", "why")
SHOWN = 20  # rows of each table on a terminal; ours, a screen
NAMED = 2  # names or ids of a group that are shown; ours
# How the reason of a change begins that only says what holds for each: the goals, which other
# columns have in figures.
PLAIN_WHY = "still "
RISK = (
    "Risk: the share of resampled two-week periods in which the advised storage would throttle or miss the p99 goal. A change "
    "that lowers the durability says so, and is left out of patch.sh without --lower-durability."
)
# Titles of the tables, in the order in which they are shown.
TITLES = {
    "unused": "Unused: delete them",
    "grow": "Too small: what needs more",
    "change": "What saves, the most first",
    "less durable": "What saves, and makes the data less sure",
}
# Of one, and of several; what money goes with it.
VERDICTS = {
    "unused": ("is unused", "are unused", "deleting saves {usd} USD a month"),
    "grow": ("is too small", "are too small", "{usd} USD more a month"),
    "change": ("can be changed", "can be changed", "saving {usd} USD a month"),
    "keep": ("is right as it is", "are right as they are", ""),
    "withheld": ("gets no advice", "get no advice", ""),
}


@dataclass(frozen=True)
class AnswerGroup:
    """Answers that are alike: of the same storage today and wanted."""

    answers: tuple

    @property
    def first(self):
        """The one that is worth most."""
        return self.answers[0]

    def sum_of(self, name: str) -> float | None:
        """A sum of money over all; None where one is not known."""
        values = [getattr(one, name) for one in self.answers]
        return None if None in values else sum(values)

    def worst(self, name: str) -> float | None:
        """The highest figure of any that has one."""
        return max((value for one in self.answers if (value := getattr(one, name)) is not None), default=None)


def groups_of(answers: Sequence, verdict: str) -> list[AnswerGroup]:
    """Answers of a title, equal ones together: what is worth most together comes first."""
    found: dict[tuple, list] = {}
    own = of_verdict(answers, "change" if verdict == "less durable" else verdict)
    for one in own:
        if verdict in ("change", "less durable") and bool(one.durability) != (verdict == "less durable"):
            continue
        why = one.why if verdict == "unused" else ""
        found.setdefault((one.today, one.wanted, one.durability, one.region, why), []).append(one)
    groups = [AnswerGroup(tuple(alike)) for alike in found.values()]
    return sorted(groups, key=lambda one: -sum(each.worth_usd for each in one.answers))


def of_verdict(answers: Sequence, verdict: str) -> list:
    """Those of one verdict, in their order."""
    return [one for one in answers if one.verdict == verdict]


def prices_of(answers: Sequence) -> str:
    """What prices the answers were made at."""
    return " and ".join(sorted({one.prices for one in answers})) or "no prices"


def saved_usd(answers: Sequence, verdict: str = "change") -> float:
    """Savings a month of all of a verdict; below 0 where they cost more."""
    return sum(one.saves_usd for one in of_verdict(answers, verdict))


def summary(answers: Sequence) -> str:
    """How many of each verdict, and the money that goes with it; what there is none of is left
    out."""
    parts = []
    for verdict, (one, several, money) in VERDICTS.items():
        count = len(of_verdict(answers, verdict))
        if count:
            amount = usd(abs(saved_usd(answers, verdict)))
            parts.append(
                f"{count:,} {several if count > 1 else one}" + (f" ({money.format(usd=amount)})" if money else "")
            )
    return f"{devices_of(answers)}: {'; '.join(parts) or 'none'}."


def head(answers: Sequence, prices: str) -> list[str]:
    """What there is in a few sentences."""
    known = [one.usd_today for one in answers if one.usd_today is not None]
    lines = [summary(answers)]
    if known and sum(known) > 0:
        shares = [
            f"{what} {usd(saved)} ({percent(saved / sum(known))})"
            for what, saved in (
                ("changes save", saved_usd(answers)),
                ("deleting what is unused saves", saved_usd(answers, "unused")),
            )
            if saved
        ]
        if shares:
            lines.append(f"Of {usd(sum(known))} USD a month for volumes that were judged, {', and '.join(shares)}.")
    lines.append(f"Prices: {prices}. {RISK}")
    grains = sorted({one.grain_s for one in answers if one.grain_s})
    if grains and grains[-1] > 60:
        lines.append(
            f"Points of {number(grains[-1] / 60)} min are means: bursts within them are not seen, and head-room stands for them."
        )
    return lines


def counted(count: int, what: str) -> str:
    """`1 volume`, `2 volumes`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def devices_of(answers: Sequence) -> str:
    """`7 volumes in 6 devices`; the devices are left out where each is one volume."""
    volumes = sum(len(one.volumes) for one in answers)
    devices = "" if volumes == len(answers) else f" in {counted(len(answers), 'device')}"
    return f"{counted(volumes, 'volume')}{devices}"


def rows(groups: Sequence[AnswerGroup]) -> list[tuple]:
    """Rows of COLUMNS."""
    return [
        (
            len(one.answers),
            volumes_of(one),
            one.first.today,
            one.first.wanted,
            usd(one.sum_of("usd_today")),
            usd(one.sum_of("usd_wanted")),
            usd(one.sum_of("saves_usd")),
            percent(one.worst("risk")) + (", durability" if one.first.durability else ""),
            p99_of(one),
            "" if one.first.why.startswith(PLAIN_WHY) and not one.first.durability else one.first.why,
        )
        for one in groups
    ]


def unused_rows(groups: Sequence[AnswerGroup]) -> list[tuple]:
    """Rows of UNUSED."""
    return [
        (len(one.answers), volumes_of(one), one.first.today, usd(one.sum_of("usd_today")), one.first.why)
        for one in groups
    ]


def volumes_of(group: AnswerGroup) -> str:
    """A volume's id and Name tag; of several the first names, or ids where they have none."""
    if len(group.answers) == 1:
        return f"{name(group.first)} {group.first.name}".strip()
    texts = [one.name or one.key for one in group.answers]
    more = f" and {len(texts) - NAMED:,} more" if len(texts) > NAMED else ""
    return ", ".join(texts[:NAMED]) + more


def p99_of(group: AnswerGroup) -> str:
    """The I/O p99 today and then, the highest of the group."""
    today, then = group.worst("today_p99_ms"), group.worst("wanted_p99_ms")
    if today is None or then is None:
        return latency(then)
    return f"{latency(today)} -> {latency(then)}"


def name(one) -> str:
    """A volume, or an array and how many it has."""
    return one.key if len(one.volumes) == 1 else f"{one.key} ({len(one.volumes)} volumes)"


def bound_rows(answers: Sequence) -> list[tuple]:
    """Rows of BOUND: volumes that are held back by their instance, an instance a row."""
    found: dict[tuple[str, str], list] = {}
    for one in answers:
        if one.bound_by:
            found.setdefault((one.bound_by, one.why), []).append(one)
    return [
        (instance, len(own), volumes_of(group := AnswerGroup(tuple(own))), group.first.today, why)
        for (instance, why), own in sorted(found.items())
    ]


def withheld_rows(answers: Sequence) -> list[tuple]:
    """Rows of WITHHELD: those without advice."""
    return [(name(one), one.name, one.instance, one.today, one.why) for one in of_verdict(answers, "withheld")]


def reasons(answers: Sequence) -> list[tuple]:
    """Rows of REASONS: why there is no advice, the most frequent first. Figures and ids are left
    out of a reason, so that like is counted with like."""
    counts = Counter(_kind(one.why) for one in of_verdict(answers, "withheld"))
    return [(count, why) for why, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]


def _kind(why: str) -> str:
    named = ("F1", "p99")  # figures that are names
    words = why.replace(" %", "%").split(" ")
    words = ["..." if any(char.isdigit() for char in word) and word not in named else word for word in words]
    return " ".join(word for at, word in enumerate(words) if word != "..." or at == 0 or words[at - 1] != "...")


def shown(answers: Sequence, prices: str, most: int = SHOWN) -> list[object]:
    """What a terminal gets: the sums, and a table of each kind that there is something of."""
    return ["\n".join(head(answers, prices)), *tables(answers, most)]


def tables(answers: Sequence, most: int = SHOWN) -> list[object]:
    """What is unused, what needs more, what saves most, what instances bind, and why some get no
    advice."""
    parts: list[object] = []
    for verdict, title in TITLES.items():
        groups = groups_of(answers, verdict)
        if groups:
            more = f" (the first {most} of {len(groups):,} kinds)" if len(groups) > most else ""
            made = unused_rows(groups[:most]) if verdict == "unused" else rows(groups[:most])
            columns = UNUSED if verdict == "unused" else COLUMNS
            if not any(row[-1] for row in made):  # no reason that other columns do not give
                columns, made = columns[:-1], [row[:-1] for row in made]
            about = {"right": RIGHT, "keep": KEEP, "prose": PROSE, "drop": DROP}
            parts.append(table(columns, made, title=f"{title}{more}", **about))
    if bound := bound_rows(answers):
        parts.append(table(BOUND, bound[:most], title="The instance binds", right=RIGHT, prose=PROSE))
    if withheld := reasons(answers):
        parts.append(table(REASONS, withheld[:most], title="Advice withheld", right=RIGHT, prose=PROSE))
    return parts


CSV = (
    "rank", "key", "volumes", "account", "region", "instance", "verdict", "today", "wanted", "usd_today", "usd_wanted", "saves_usd",
    "worth_usd", "risk", "grain_s", "days", "censored_share", "balance_error", "throttled_f1", "queue_ratio",
    "today_throttled_min", "today_p99_ms", "wanted_throttled_min", "wanted_p99_ms", "prices", "why", "name",
    "durability", "bound_by",
)  # fmt: skip


def csv_rows(answers: Sequence) -> list[dict]:
    """A row per device for programs."""
    return [
        {key: getattr(one, key) for key in CSV if key not in ("rank", "volumes")}
        | {"rank": rank, "volumes": " ".join(one.volumes)}
        for rank, one in enumerate(answers, 1)
    ]


def document(answers: Sequence, prices: str) -> dict:
    """The answers for programs, as JSON takes them."""
    return {
        "devices": len(answers),
        "volumes": sum(len(one.volumes) for one in answers),
        "verdicts": dict(Counter(one.verdict for one in answers)),
        "usd_month": sum(one.usd_today for one in answers if one.usd_today is not None),
        "saves_usd_month": saved_usd(answers),
        "unused_usd_month": saved_usd(answers, "unused"),
        "prices": prices,
        "answers": [row | {"volumes": row["volumes"].split()} for row in csv_rows(answers)],
    }
