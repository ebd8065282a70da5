"""`headrace catalog`: volume types, instances, prices and where the figures come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from headrace.base.lazy import defer_imports
from headrace.base.options import AsOfText, Region
from headrace.base.units import describe_days
from headrace.cli.options import CommandGroup, OutputOption, complete_instance, complete_type, make_flag, make_option
from headrace.cli.output import make_table, print_frame, show
from headrace.cli.sharing import read_epilog

if TYPE_CHECKING:
    import polars as pl

with defer_imports():
    from headrace.catalog import facts
    from headrace.report import words

EPILOG = read_epilog("catalog")

app = CommandGroup(
    "Show what volume types, instances and regions allowed and cost, by day, each row with its source.", EPILOG
)

LOOK_UP = "Source ids are explained by: headrace catalog sources"
ASK = "The source of each row: --sources"
NAMED = 6  # rows named in a note, which then fits a line or two; more are counted
SourcesOption = Annotated[bool, make_flag("--sources", "Show the sources in the table; json and csv always have them.")]


def _print_table(rows: Sequence[dict[str, object]], optional: Sequence[str], *notes: str, **layout: Any) -> None:
    """Prints a table with the keys of its rows as columns, without those of `optional` that are
    empty in all rows, and notes below it. `layout`: as `make_table` takes it."""
    empty = {name for name in optional if not any(row[name] for row in rows)}
    columns = [name for name in rows[0] if name not in empty] if rows else []
    keep = [name for name in columns if name not in layout["prose"]]
    show(make_table(columns, [[row[name] for name in columns] for row in rows], keep=keep, **layout), "", *notes)


@app.command()
def volumes(
    type: Annotated[str | None, make_option("TYPE", "Only this volume type.", autocompletion=complete_type)] = None,
    as_of: AsOfText = None,
    all_eras: Annotated[bool, make_flag("--all-eras", "All eras, not only that of the day.")] = False,
    sources: SourcesOption = False,
    output: OutputOption = "table",
) -> None:
    """Show limits of the volume types: size, IOPS, MiB/s, credits, durability."""
    frame = facts.volumes(as_of, type, all_eras)
    if output != "table":
        return print_frame(frame, output)
    rows: list[dict[str, object]] = [
        {
            "type": row["volume_type"],
            "?": _format_mark(row),
            "from": row["from"],
            "until": row["until"],
            "GiB": f"{row['size_gib_min']:,}-{row['size_gib_max']:,}",
            "IOPS": row["iops"],
            "throughput": row["throughput"],
            "promise": row["consistency"],
            "AFR %": _format_afr(row),
            "source": row["source"] if sources else "",
        }
        for row in frame.to_dicts()
    ]
    lost = "" if frame["persistent"].all() else "; local disks are lost with their host"
    doubts = list_unconfirmed(frame, lambda row: f"{row['volume_type']} since {row['from']}")
    notes = (f"AFR: annual failure rate{lost}.", *doubts, LOOK_UP if sources else ASK)
    _print_table(rows, ("until", "source"), *notes, prose=("IOPS", "throughput", "source"))


def _format_mark(row: dict) -> str:
    return "?" if row["unconfirmed"] else ""


def list_unconfirmed(frame: pl.DataFrame, name: Callable[[dict], str]) -> list[str]:
    """Returns the doubts about the rows marked ?, each once with the names of its rows."""
    rows_of_note: dict[str, list[str]] = {}
    for row in frame.to_dicts():
        for note in filter(None, row["unconfirmed"].split("; ")):
            rows_of_note.setdefault(note, []).append(name(row))
    lines = []
    for note, names in rows_of_note.items():
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        lines.append(f"? {', '.join(names[:NAMED])}{more}: {note}")
    return lines


def _format_afr(row: dict) -> str:
    """Returns the annual failure rate in percent, from low to high, for a table; "with host" for
    disks of an instance."""
    low, high = row["afr_percent_low"], row["afr_percent_high"]
    if low is None:
        return "" if row["persistent"] else "with host"
    return f"{low:g}" if low == high else f"{low:g}-{high:g}"


@app.command()
def instances(
    family: Annotated[
        str | None,
        make_option("FAMILY", "Only m5, m5.large or a pattern such as 'r6i.*'.", autocompletion=complete_instance),
    ] = None,
    region: Region = "us-east-1",
    as_of: AsOfText = None,
    sources: SourcesOption = False,
    output: OutputOption = "table",
) -> None:
    """Show instance types: EBS baseline and burst, memory, vCPUs, USD an hour."""
    frame = facts.instances(as_of, region, family)
    if output != "table":
        return print_frame(frame, output)

    rows: list[dict[str, object]] = [
        {
            "instance": row["instance_type"],
            "vCPUs": row["vcpus"],
            "GiB": words.format_number(row["memory_gib"]),
            "EBS IOPS": _format_range(row["baseline_iops"], row["max_iops"]),
            "EBS MiB/s": _format_range(row["baseline_mib_s"], row["max_mib_s"]),
            "burst": f"{row['burst_min']:g} min" if row["burst_min"] else "-",
            "local GB": row["instance_store_gb"] or "",
            "USD/hour": "-" if row["usd_hour"] is None else f"{row['usd_hour']:g}",
            "?": _format_mark(row),
            "price source": row["price_source"] if sources else "",
            "price verified": row["price_as_of"] if sources else "",
        }
        for row in frame.to_dicts()
    ]
    days = sorted({day.rpartition(" ")[2] for day in frame["price_as_of"] if day})
    verified = f"last verified {describe_days(days[0], days[-1])}" if days else "none of which is known"
    notes = (
        "EBS: baseline > maximum; the maximum holds for `burst` from a full bucket, - : always.",
        f"On-demand prices for {region}, {verified}.",
        *list_unconfirmed(frame, lambda row: row["instance_type"]),
        LOOK_UP if sources else ASK,
    )
    right = ("vCPUs", "GiB", "EBS IOPS", "EBS MiB/s", "burst", "local GB", "USD/hour")
    prose = ("price source", "price verified")
    _print_table(rows, ("?", *prose), *notes, right=right, prose=prose, drop=("local GB",))


def _format_range(low: float | None, high: float | None) -> str:
    """Returns a range as `LOW > HIGH`, or one number where both are equal."""
    if high is None:
        return "not known"
    text = words.format_number(high, 4)
    return text if low == high else f"{words.format_number(low, 4)} > {text}"


@app.command()
def prices(
    region: Region = "us-east-1",
    as_of: AsOfText = None,
    sources: SourcesOption = False,
    output: OutputOption = "table",
) -> None:
    """Show EBS prices of a region, by item."""
    frame = facts.prices(region, as_of)
    if output != "table":
        return print_frame(frame, output)
    rows: list[dict[str, object]] = [
        {
            "product": row["product"],
            "component": row["component"],
            "above": f"{row['from_quantity']:,.0f}" if row["from_quantity"] else "",
            "USD": f"{row['usd']:g}",
            "unit": row["unit"],
            "?": _format_mark(row),
            "last verified": "" if sources else row["as_of"].rpartition(" ")[2],
            "verified": row["as_of"] if sources else "",
            "source": row["source"] if sources else "",
        }
        for row in frame.to_dicts()
    ]
    notes = (*list_unconfirmed(frame, lambda row: f"{row['product']} {row['component']}"), LOOK_UP if sources else ASK)
    layout = {"title": f"EBS prices in {region}", "right": ("above", "USD"), "prose": ("source",)}
    _print_table(rows, ("?", "last verified", "verified", "source"), *notes, **layout)


@app.command("sources")
def list_sources(output: OutputOption = "table") -> None:
    """Show where all figures come from, with date and confidence."""
    frame = facts.sources()
    if output != "table":
        return print_frame(frame, output)

    show(make_table(("id", "document", "as of", "confidence", "note"), frame.rows()))
