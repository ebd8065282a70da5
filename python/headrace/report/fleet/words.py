"""The answers for a fleet in words and rows. `answers`: a sequence of
`operate.fleet.answer.VolumeAnswer`, in the order in which they are to stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from headrace.report.tables import table
from headrace.report.words import latency, number, percent, usd

COLUMNS = (
    "rank", "volume", "instance", "today", "wanted", "USD/month", "then", "saves", "risk", "throttled min", "p99", "why",
)  # fmt: skip
RIGHT = ("rank", "USD/month", "then", "saves", "risk", "throttled min", "p99", "volumes")
KEEP = ("volume", "today", "wanted")
PROSE = ("why",)
DROP = ("throttled min", "instance", "p99")
WITHHELD = ("volume", "instance", "today", "why")
REASONS = ("volumes", "why")
SHOWN = 20  # rows of each table on a terminal; ours, a screen
WEEKS = "Risk: the share of fortnights, drawn anew from the recorded days, in which the wanted storage would throttle or miss its p99."
# Of one, and of several.
VERDICTS = {
    "change": ("can be changed and saves", "can be changed and save"),
    "grow": ("needs more than it has", "need more than they have"),
    "keep": ("is right as it is", "are right as they are"),
    "withheld": ("gets no advice", "get no advice"),
}


def of_verdict(answers: Sequence, verdict: str) -> list:
    """Those of one verdict, in their order."""
    return [one for one in answers if one.verdict == verdict]


def prices_of(answers: Sequence) -> str:
    """What prices the answers were made at."""
    return " and ".join(sorted({one.prices for one in answers})) or "no prices"


def saved_usd(answers: Sequence) -> float:
    """Savings a month of all that can be changed."""
    return sum(one.saves_usd for one in of_verdict(answers, "change"))


def head(answers: Sequence, prices: str) -> list[str]:
    """What there is in a few sentences."""
    known = [one.usd_today for one in answers if one.usd_today is not None]
    counts = Counter(one.verdict for one in answers)
    each = "; ".join(
        f"{counts[verdict]:,} {words[counts[verdict] > 1]}" for verdict, words in VERDICTS.items() if counts[verdict]
    )
    lines = [f"{devices_of(answers)}: {each or 'none'}."]
    if known:
        saved, more = saved_usd(answers), -sum(one.saves_usd for one in of_verdict(answers, "grow"))
        share = f" ({percent(saved / sum(known))})" if sum(known) > 0 else ""
        lines.append(
            f"Of {usd(sum(known))} USD a month for volumes that were judged, changes save {usd(saved)}{share}"
            + (f"; what needs more costs {usd(max(0.0, more))} more." if counts["grow"] else ".")
        )
    lines.append(f"Prices: {prices}. {WEEKS}")
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


def rows(answers: Sequence, first: int = 1) -> list[tuple]:
    """Rows of COLUMNS."""
    return [
        (
            rank,
            name(one),
            one.instance,
            one.today,
            one.wanted,
            usd(one.usd_today),
            usd(one.usd_wanted),
            usd(one.saves_usd),
            percent(one.risk),
            number(one.wanted_throttled_min),
            latency(one.wanted_p99_ms),
            one.why,
        )
        for rank, one in enumerate(answers, first)
    ]


def name(one) -> str:
    """A volume, or an array and how many it has."""
    return one.key if len(one.volumes) == 1 else f"{one.key} ({len(one.volumes)} volumes)"


def withheld_rows(answers: Sequence) -> list[tuple]:
    """Rows of WITHHELD: those without advice."""
    return [(name(one), one.instance, one.today, one.why) for one in of_verdict(answers, "withheld")]


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
    """What a terminal gets: the sums, what saves most, what needs more, why some get no advice."""
    parts: list[object] = ["\n".join(head(answers, prices))]
    for verdict, title in (("change", "What saves, the most first"), ("grow", "What needs more")):
        found = of_verdict(answers, verdict)
        if found:
            more = f" (the first {most} of {len(found):,})" if len(found) > most else ""
            columns = {"right": RIGHT, "keep": KEEP, "prose": PROSE, "drop": DROP}
            parts.append(table(COLUMNS, rows(found[:most]), title=f"{title}{more}", **columns))
    if withheld := reasons(answers):
        parts.append(table(REASONS, withheld[:most], title="Advice withheld", right=RIGHT, prose=PROSE))
    return parts


CSV = (
    "rank", "key", "volumes", "account", "region", "instance", "verdict", "today", "wanted", "usd_today", "usd_wanted", "saves_usd",
    "worth_usd", "risk", "grain_s", "days", "censored_share", "balance_error", "throttled_f1", "queue_ratio",
    "today_throttled_min", "today_p99_ms", "wanted_throttled_min", "wanted_p99_ms", "prices", "why",
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
        "prices": prices,
        "answers": [row | {"volumes": row["volumes"].split()} for row in csv_rows(answers)],
    }
