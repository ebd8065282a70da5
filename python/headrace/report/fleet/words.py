"""The answers for a fleet in words and rows. `answers`: a sequence of
`operate.fleet.answer.VolumeAnswer`, in the order in which they are to stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.report.view import (
    Block,
    Card,
    Column,
    Fold,
    Heading,
    Items,
    Sentence,
    Table,
    View,
    make_columns,
    make_drawn_chart,
)
from headrace.report.words import format_latency, format_number, format_percent, format_usd

if TYPE_CHECKING:
    import altair as alt

    from headrace.operate.fleet.answer import VolumeAnswer

KINDS = {
    "number": ("USD/month", "then", "saves", "count"),
    "key": ("today", "proposed"),
    "prose": ("why",),
    "drop": ("p99", "USD/month", "then"),
}
BRIEF = ("volumes", "today", "proposed", "saves", "risk")
COLUMNS = make_columns(
    ("count", "volumes", "today", "proposed", "USD/month", "then", "saves", "risk", "p99", "why"), brief=BRIEF, **KINDS
)
UNUSED = make_columns(("count", "volumes", "today", "saves", "why"), **KINDS)
WITHHELD = make_columns(("volume", "name", "instance", "today", "why"), prose=("why",))
BOUND = make_columns(("instance", "count", "volumes", "today", "why"), number=("count",), prose=("why",))
REASONS = make_columns(("count", "why"), number=("count",), prose=("why",))
SHOWN = 20  # rows of each table on a terminal; ours, a screen
MOST_ROWS = 500  # of each table; a page of ten thousand opens slowly, and Parquet has them all
CENTS_BELOW = 1_000  # USD in a headline; ours
NAMED = 2  # names or ids of a group that are shown; ours
# Beginning of a reason that only repeats the goals, whose figures stand in other columns.
PLAIN_WHY = "still "
RISK = (
    "Risk: the share of resampled two-week periods in which the advised storage would throttle or miss the p99 goal. A change "
    "that lowers the durability says so, and is left out of patch.sh without --lower-durability."
)
# Titles of the tables, in the order in which they are shown.
TITLES = {
    "unused": "Unused: delete them",
    "grow": "Too small: enlarge them",
    "change": "Savings, the largest first",
    "less durable": "Savings that make the data less sure",
}
# Words for a group of one device, words for several, and the money at stake.
VERDICTS = {
    "unused": ("is unused", "are unused", "deleting saves {usd} USD a month"),
    "grow": ("is too small", "are too small", "{usd} USD more a month"),
    "change": ("can be changed", "can be changed", "saving {usd} USD a month"),
    "keep": ("is right as it is", "are right as they are", ""),
    "withheld": ("gets no advice", "get no advice", ""),
}


@dataclass(frozen=True)
class AnswerGroup:
    """Answers with the same storage today and the same proposed one."""

    answers: tuple

    @property
    def first(self):
        """Returns the first answer of the group."""
        return self.answers[0]

    def sum_usd(self, name: str) -> float | None:
        """Returns the sum of an amount over the answers; None where it is not known of all."""
        values = [getattr(answer, name) for answer in self.answers]
        return None if None in values else sum(values)

    def find_worst(self, name: str) -> float | None:
        """Returns the highest figure of any that has one, in the unit of its name; None where none
        has."""
        return max((value for answer in self.answers if (value := getattr(answer, name)) is not None), default=None)


def group_answers(answers: Sequence, verdict: str) -> list[AnswerGroup]:
    """Returns groups of alike answers under a key of TITLES, the group worth most first."""
    answers_by_key: dict[tuple, list] = {}
    own = select_verdict(answers, "change" if verdict == "less durable" else verdict)
    for answer in own:
        if verdict in ("change", "less durable") and bool(answer.durability) != (verdict == "less durable"):
            continue
        why = answer.why if verdict == "unused" else ""
        answers_by_key.setdefault((answer.today, answer.proposed, answer.durability, answer.region, why), []).append(
            answer
        )
    groups = [AnswerGroup(tuple(alike)) for alike in answers_by_key.values()]
    return sorted(groups, key=lambda group: -sum(answer.worth_usd for answer in group.answers))


def select_verdict(answers: Sequence, verdict: str) -> list:
    """Returns the answers of one verdict, in their order."""
    return [answer for answer in answers if answer.verdict == verdict]


def describe_prices(answers: Sequence) -> str:
    """Returns the prices that the answers were made with, in words."""
    return " and ".join(sorted({answer.prices for answer in answers})) or "no prices"


def sum_saved_usd(answers: Sequence, verdict: str = "change") -> float:
    """Returns the savings of a verdict's answers, USD a month; below 0 where they cost more."""
    return sum(answer.saves_usd for answer in select_verdict(answers, verdict))


def summarise_answers(answers: Sequence) -> str:
    """Returns a sentence with the number of answers of each verdict, and what they save or cost."""
    parts = []
    for verdict, (singular, plural, money) in VERDICTS.items():
        count = len(select_verdict(answers, verdict))
        if count:
            amount = format_usd(abs(sum_saved_usd(answers, verdict)))
            parts.append(
                f"{count:,} {plural if count > 1 else singular}" + (f" ({money.format(usd=amount)})" if money else "")
            )
    return f"{describe_devices(answers)}: {'; '.join(parts) or 'none'}."


def describe_answers(answers: Sequence, prices: str) -> list[str]:
    """Returns sentences on the answers: sums by verdict, shares of the cost, prices, caveats."""
    usd_today = [answer.usd_today for answer in answers if answer.usd_today is not None]
    lines = [summarise_answers(answers)]
    if usd_today and sum(usd_today) > 0:
        shares = [
            f"{what} {format_usd(saved)} ({format_percent(saved / sum(usd_today))})"
            for what, saved in (
                ("changes save", sum_saved_usd(answers)),
                ("deleting what is unused saves", sum_saved_usd(answers, "unused")),
            )
            if saved
        ]
        if shares:
            lines.append(
                f"Volumes that were judged cost {format_usd(sum(usd_today))} USD a month; {', and '.join(shares)}."
            )
    lines.append(f"Prices: {prices}. {RISK}")
    grains = sorted({answer.grain_s for answer in answers if answer.grain_s})
    if grains and grains[-1] > 60:
        lines.append(
            f"Points of {format_number(grains[-1] / 60)} min are means: bursts within them are not seen, and head-room stands for them."
        )
    return lines


def format_count(count: int, what: str) -> str:
    """Returns a count with its noun: `1 volume`, `2 volumes`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def describe_devices(answers: Sequence) -> str:
    """Returns `7 volumes in 6 devices`; without devices where each is one volume."""
    volumes = sum(len(answer.volumes) for answer in answers)
    devices = "" if volumes == len(answers) else f" in {format_count(len(answers), 'device')}"
    return f"{format_count(volumes, 'volume')}{devices}"


def list_rows(groups: Sequence[AnswerGroup]) -> list[tuple]:
    """Returns rows of COLUMNS: counts, storage today and proposed, USD a month, risk in %, I/O p99
    and why."""
    return [
        (
            len(group.answers),
            describe_volumes(group),
            group.first.today,
            group.first.proposed,
            format_usd(group.sum_usd("usd_today")),
            format_usd(group.sum_usd("usd_proposed")),
            format_usd(group.sum_usd("saves_usd")),
            format_percent(group.find_worst("risk")) + (", durability" if group.first.durability else ""),
            describe_p99(group),
            "" if group.first.why.startswith(PLAIN_WHY) and not group.first.durability else group.first.why,
        )
        for group in groups
    ]


def list_unused_rows(groups: Sequence[AnswerGroup]) -> list[tuple]:
    """Returns rows of UNUSED: counts, storage, USD a month and reason."""
    return [
        (
            len(group.answers),
            describe_volumes(group),
            group.first.today,
            format_usd(group.sum_usd("usd_today")),
            group.first.why,
        )
        for group in groups
    ]


def describe_volumes(group: AnswerGroup) -> str:
    """Returns a volume's id and Name tag; of several the first names, or ids where they have
    none."""
    if len(group.answers) == 1:
        return f"{describe_device(group.first)} {group.first.name}".strip()
    texts = [answer.name or answer.key for answer in group.answers]
    more = f" and {len(texts) - NAMED:,} more" if len(texts) > NAMED else ""
    return ", ".join(texts[:NAMED]) + more


def describe_p99(group: AnswerGroup) -> str:
    """Returns the highest I/O p99 of the group, today's and that of the proposed storage."""
    today, then = group.find_worst("today_p99_ms"), group.find_worst("proposed_p99_ms")
    if today is None or then is None:
        return format_latency(then)
    return f"{format_latency(today)} -> {format_latency(then)}"


def describe_device(answer: VolumeAnswer) -> str:
    """Returns the name of a volume, or of an array with the number of its volumes."""
    return answer.key if len(answer.volumes) == 1 else f"{answer.key} ({len(answer.volumes)} volumes)"


def list_bound_rows(answers: Sequence) -> list[tuple]:
    """Returns rows of BOUND: an instance whose limits its volumes reach, with these."""
    bound: dict[tuple[str, str], list] = {}
    for answer in answers:
        if answer.bound_by:
            bound.setdefault((answer.bound_by, answer.why), []).append(answer)
    return [
        (instance, len(own), describe_volumes(group := AnswerGroup(tuple(own))), group.first.today, why)
        for (instance, why), own in sorted(bound.items())
    ]


def list_withheld_rows(answers: Sequence) -> list[tuple]:
    """Returns rows of WITHHELD: volumes without advice."""
    return [
        (describe_device(answer), answer.name, answer.instance, answer.today, answer.why)
        for answer in select_verdict(answers, "withheld")
    ]


def list_reason_rows(answers: Sequence) -> list[tuple]:
    """Returns rows of REASONS: why there is no advice, the most frequent first. Figures and ids are
    left out of a reason, so that like is counted with like."""
    counts = Counter(_strip_figures(answer.why) for answer in select_verdict(answers, "withheld"))
    return [(count, why) for why, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]


def _strip_figures(why: str) -> str:
    """Returns a reason with "..." for its figures, so that equal reasons can be counted."""
    named = ("F1", "p99")  # figures that are names
    words = why.replace(" %", "%").split(" ")
    words = ["..." if any(char.isdigit() for char in word) and word not in named else word for word in words]
    return " ".join(word for at, word in enumerate(words) if word != "..." or at == 0 or words[at - 1] != "...")


def build_view(
    answers: Sequence, prices: str, notes: Sequence[str] = (), chart: alt.TopLevelMixin | None = None, most: int = SHOWN
) -> View:
    """Returns the answers as a view: the sums, and a table of each kind that has rows. `chart`:
    savings against risk; `most`: rows of each table on a terminal."""
    first, *rest = describe_answers(answers, prices)
    blocks: list[Block] = [Sentence("\n".join([first, *rest]), place="terminal")]
    if chart is not None:
        counted_text = format_count(len(select_verdict(answers, "change")), "device")
        described = (
            f"Savings against risk of what can be changed ({counted_text}); the table below has the same figures"
        )
        blocks.append(make_drawn_chart(chart, described))
    behind = Fold("Meaning of the figures", [Items([*rest, *notes])])
    below = [*blocks, *build_tables(answers, most), *_build_page_tables(answers), behind]
    return View(_make_headline(answers), first, list(_build_cards(answers)), below)


def _format_dollars(amount: float) -> str:
    """Returns an amount for a headline, with cents below 1,000 USD alone; tables have them."""
    return format_usd(amount) if abs(amount) < CENTS_BELOW else f"{amount:,.0f}"


def _make_headline(answers: Sequence) -> str:
    """Returns a sentence on what can be saved, or on what is too small."""
    count, few = len(select_verdict(answers, "change")), len(select_verdict(answers, "grow"))
    saved = sum_saved_usd(answers) + sum_saved_usd(answers, "unused")
    if count or saved:
        small = f"; {format_count(few, 'device')} {'is' if few == 1 else 'are'} too small" if few else ""
        return f"{_format_dollars(saved)} USD a month can be saved on {describe_devices(answers)}{small}"
    if few:
        return f"{format_count(few, 'device')} of {describe_devices(answers)} {'is' if few == 1 else 'are'} too small"
    return f"Nothing is to be changed on {describe_devices(answers)}"


def _build_cards(answers: Sequence) -> Iterator[Card]:
    """Yields the cards of a fleet: what changes and deletions save, and what larger volumes cost,
    in USD a month."""
    if count := len(select_verdict(answers, "change")):
        figure = f"{_format_dollars(sum_saved_usd(answers))} USD"
        yield Card("Changes save a month", figure, f"{format_count(count, 'device')} can be changed.", "good")
    if count := len(select_verdict(answers, "unused")):
        figure = f"{_format_dollars(sum_saved_usd(answers, 'unused'))} USD"
        yield Card(
            "Deleting what is unused saves a month", figure, f"Nobody uses {format_count(count, 'device')}.", "good"
        )
    if count := len(select_verdict(answers, "grow")):
        more = f"Large enough, {'it costs' if count == 1 else 'they cost'} {_format_dollars(-sum_saved_usd(answers, 'grow'))} USD more a month."
        yield Card("Too small", format_count(count, "device"), more, "warn")


def build_tables(answers: Sequence, most: int = SHOWN) -> list[Block]:
    """Returns the tables of a terminal: unused volumes, those that need more, the largest savings,
    instances that bind, and reasons without advice."""
    blocks: list[Block] = []
    for verdict, title in TITLES.items():
        groups = group_answers(answers, verdict)
        if groups:
            more = f" (the first {most} of {len(groups):,} kinds)" if len(groups) > most else ""
            heads, table_rows = _tabulate_groups(verdict, groups[:most])
            if not any(row[-1] for row in table_rows):  # no reason that other columns do not give
                heads, table_rows = heads[:-1], [row[:-1] for row in table_rows]
            blocks.append(Table(heads, table_rows, f"{title}{more}", place="terminal"))
    if bound := list_bound_rows(answers):
        blocks.append(Table(BOUND, bound[:most], "The instance binds", place="terminal"))
    if withheld := list_reason_rows(answers):
        blocks.append(Table(REASONS, withheld[:most], "Advice withheld", place="terminal"))
    return blocks


def _tabulate_groups(verdict: str, groups: Sequence[AnswerGroup]) -> tuple[tuple[Column, ...], list[tuple]]:
    return (UNUSED, list_unused_rows(groups)) if verdict == "unused" else (COLUMNS, list_rows(groups))


def _build_page_table(verdict: str, groups: Sequence[AnswerGroup]) -> Table:
    """Returns a table of a page: money has its unit above it, and what is too small says what it
    costs more instead of saving less than nothing."""
    heads, table_rows = _tabulate_groups(verdict, groups)
    heads = tuple(replace(head, kind="number") if head.title == "risk" else head for head in heads)
    if verdict == "grow":
        at = next(index for index, head in enumerate(heads) if head.title == "saves")
        heads = (*heads[:at], replace(heads[at], title="costs more"), *heads[at + 1 :])
        more = [(None if (saves := group.sum_usd("saves_usd")) is None else -saves) for group in groups]
        table_rows = [
            (*row[:at], format_usd(amount), *row[at + 1 :]) for row, amount in zip(table_rows, more, strict=True)
        ]
    risk = "" if verdict == "unused" else "; risk: fortnights that miss the goal"
    return Table(heads, table_rows, f"Money in USD a month{risk}", place="page")


def _build_page_tables(answers: Sequence) -> list[Block]:
    """Returns the tables of the page, a section per verdict; each table is cut at `MOST_ROWS`."""
    blocks: list[Block] = []
    for verdict, title in TITLES.items():
        groups = group_answers(answers, verdict)
        if groups:
            blocks += [
                Heading(title, "page"),
                _build_page_table(verdict, groups[:MOST_ROWS]),
                *_describe_cut(len(groups)),
            ]
        elif verdict == "change":
            words = "Nothing can be changed that saves noticeably and meets the goals."
            blocks += [Heading(title, "page"), Sentence(words, place="page")]
    if bound := list_bound_rows(answers):
        words = "A larger volume brings nothing there: the instance's own limit to EBS is what they take."
        blocks += [Heading("The instance binds", "page"), Sentence(words, place="page")]
        blocks += [Table(BOUND, bound[:MOST_ROWS], place="page"), *_describe_cut(len(bound))]
    blocks.append(Heading("Advice withheld", "page"))
    if withheld := list_withheld_rows(answers):
        words = "A volume is first predicted as it is. If that fails, or too little is known of it, it gets no advice."
        blocks += [Sentence(words, place="page"), Table(REASONS, list_reason_rows(answers)[:MOST_ROWS], place="page")]
        blocks += [Table(WITHHELD, withheld[:MOST_ROWS], place="page"), *_describe_cut(len(withheld))]
    else:
        blocks.append(Sentence("No volume was left without an answer.", "good", "page"))
    keep = len(select_verdict(answers, "keep"))
    stays = f"{format_count(keep, 'device')} {'stays as it is' if keep == 1 else 'stay as they are'}."
    return [*blocks, Heading("Right as they are", "page"), Sentence(stays, place="page")]


def _describe_cut(count: int) -> list[Block]:
    """Returns a sentence on where all rows are, if there are more than MOST_ROWS."""
    if count <= MOST_ROWS:
        return []
    words = f"The first {MOST_ROWS:,} of {count:,}; all are in the Parquet and CSV output."
    return [Sentence(words, place="page")]


CSV = (
    "rank", "key", "volumes", "account", "region", "instance", "verdict", "today", "proposed", "usd_today", "usd_proposed", "saves_usd",
    "worth_usd", "risk", "grain_s", "days", "censored_share", "balance_error", "throttled_f1", "queue_ratio",
    "today_throttled_min", "today_p99_ms", "proposed_throttled_min", "proposed_p99_ms", "prices", "why", "name",
    "durability", "bound_by",
)  # fmt: skip


def list_csv_rows(answers: Sequence) -> list[dict]:
    """Returns a row for each device, for programs, with the columns of `CSV`; units are in their
    names."""
    return [
        {key: getattr(answer, key) for key in CSV if key not in ("rank", "volumes")}
        | {"rank": rank, "volumes": " ".join(answer.volumes)}
        for rank, answer in enumerate(answers, 1)
    ]


def build_document(answers: Sequence, prices: str) -> dict:
    """Returns the answers for programs, as JSON takes them; money is in USD a month."""
    return {
        "devices": len(answers),
        "volumes": sum(len(answer.volumes) for answer in answers),
        "verdicts": dict(Counter(answer.verdict for answer in answers)),
        "usd_month": sum(answer.usd_today for answer in answers if answer.usd_today is not None),
        "saves_usd_month": sum_saved_usd(answers),
        "unused_usd_month": sum_saved_usd(answers, "unused"),
        "prices": prices,
        "answers": [row | {"volumes": row["volumes"].split()} for row in list_csv_rows(answers)],
    }
