"""`headrace catalog`: volume types, instances, prices and where the figures come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any

from headrace.cli.options import (
    AsOfOption,
    CommandGroup,
    OutputOption,
    RegionOption,
    complete_instance,
    complete_type,
    flag,
    option,
)
from headrace.cli.output import print_frame

EPILOG = """\b
Examples:
  headrace catalog volumes --as-of 2018-08-15
  headrace catalog volumes --type gp3 --all-eras --output json
  headrace catalog instances --family m5 --region eu-west-1
  headrace catalog prices --region us-east-1 --output csv"""

app = CommandGroup("Show what volume types, instances and regions allowed and cost, by day, each row with its source.", EPILOG)

LOOK_UP = "Source ids are explained by: headrace catalog sources"
ASK = "The source of each row: --sources"
NAMED = 6  # rows named in a note, which then fits a line or two; more are counted
SourcesOption = Annotated[bool, flag("--sources", "Show the sources of each row in the table; json and csv always have them.")]


def without_empty(columns: tuple[str, ...], rows: list[tuple], *names: str) -> tuple[list[str], list[list[object]]]:
    """The table without those of the named columns in which no row says anything."""
    kept = [index for index, name in enumerate(columns) if name not in names or any(row[index] not in ("", None) for row in rows)]
    return [columns[index] for index in kept], [[row[index] for index in kept] for row in rows]


@app.command()
def volumes(
    type: Annotated[str | None, option("TYPE", "Only this volume type.", autocompletion=complete_type)] = None,
    as_of: AsOfOption = None,
    all_eras: Annotated[bool, flag("--all-eras", "Every era there ever was, not only that of the day.")] = False,
    sources: SourcesOption = False,
    output: OutputOption = "table",
) -> None:
    """Show limits of the volume types: size, IOPS, MiB/s, credits, durability."""
    from headrace.catalog import facts as catalog

    frame = catalog.volumes(as_of, type, all_eras)
    if output != "table":
        return print_frame(frame, output)
    from headrace.report.tables import show, table

    columns = ("type", "?", "from", "until", "GiB", "IOPS", "throughput", "promise", "AFR %", "source")
    rows = [
        (row["volume_type"], _mark(row), row["from"], row["until"] or "", f"{row['size_gib_min']:,}-{row['size_gib_max']:,}", row["iops"],
         row["throughput"],
         row["consistency"], _afr(row), row["source"] if sources else "")
        for row in frame.to_dicts()
    ]  # fmt: skip
    columns, cells = without_empty(columns, rows, "until", "source")
    sentences = ("IOPS", "throughput", "source")
    made = table(columns, cells, keep=[name for name in columns if name not in sentences], prose=sentences)
    lost = (
        "AFR: annual failure rate; local disks are lost with their host." if not frame["persistent"].all() else "AFR: annual failure rate."
    )
    show(
        made,
        "",
        lost,
        *unconfirmed(frame, lambda row: f"{row['volume_type']} since {row['from']}"),
        LOOK_UP if sources else ASK,
    )


def _mark(row: dict) -> str:
    return "?" if row["unconfirmed"] else ""


def unconfirmed(frame: Any, name: Callable[[dict], str]) -> list[str]:
    """What the rows marked ? are not sure of: each note once, with the rows it is about."""
    about: dict[str, list[str]] = {}
    for row in frame.to_dicts():
        for note in filter(None, row["unconfirmed"].split("; ")):
            about.setdefault(note, []).append(name(row))
    lines = []
    for note, names in about.items():
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        lines.append(f"? {', '.join(names[:NAMED])}{more}: {note}")
    return lines


def _afr(row: dict) -> str:
    low, high = row["afr_percent_low"], row["afr_percent_high"]
    if low is None:
        return "" if row["persistent"] else "with host"
    return f"{low:g}" if low == high else f"{low:g}-{high:g}"


@app.command()
def instances(
    family: Annotated[
        str | None,
        option("FAMILY", "Only m5, m5.large or a pattern such as 'r6i.*'.", autocompletion=complete_instance),
    ] = None,
    region: RegionOption = "us-east-1",
    as_of: AsOfOption = None,
    sources: SourcesOption = False,
    output: OutputOption = "table",
) -> None:
    """Show instance types: EBS baseline and burst, memory, vCPUs, USD an hour."""
    from headrace.catalog import facts as catalog

    frame = catalog.instances(as_of, region, family)
    if output != "table":
        return print_frame(frame, output)
    from headrace.report.tables import show, table
    from headrace.report.words import number

    columns = (
        "instance",
        "vCPUs",
        "GiB",
        "EBS IOPS",
        "EBS MiB/s",
        "burst",
        "local GB",
        "USD/hour",
        "?",
        "price source",
        "price seen",
    )
    rows = [
        (row["instance_type"], row["vcpus"], number(row["memory_gib"]), _from_to(row["baseline_iops"], row["max_iops"]),
         _from_to(row["baseline_mib_s"], row["max_mib_s"]), f"{row['burst_min']:g} min" if row["burst_min"] else "-",
         row["instance_store_gb"] or "", "-" if row["usd_hour"] is None else f"{row['usd_hour']:g}", _mark(row),
         *((row["price_source"], row["price_as_of"]) if sources else ("", "")))
        for row in frame.to_dicts()
    ]  # fmt: skip
    right = ("vCPUs", "GiB", "EBS IOPS", "EBS MiB/s", "burst", "local GB", "USD/hour")
    held = "EBS: baseline > maximum; the maximum holds for `burst` from a full bucket, - : always."
    columns, cells = without_empty(columns, rows, "?", "price source", "price seen")
    made = table(columns, cells, right=right, keep=columns[:9], prose=("price source", "price seen"), drop=("local GB",))
    seen = f"Prices of {region}, on demand, last seen {last_seen(frame['price_as_of'])}."
    show(made, "", held, seen, *unconfirmed(frame, lambda row: row["instance_type"]), LOOK_UP if sources else ASK)


def last_seen(days: Iterable[str]) -> str:
    """The days on which prices were seen last: one, or the first and the last of them. `days`: `2022-02-10` or `2014-06-17 to 2026-06-26`."""
    last = sorted({day.rpartition(" ")[2] for day in days if day})
    return "never" if not last else last[0] if len(last) == 1 else f"{last[0]} to {last[-1]}"


def _from_to(low: float | None, high: float | None) -> str:
    from headrace.report.words import number

    if high is None:
        return "not known"
    return number(high, 4) if low == high else f"{number(low, 4)} > {number(high, 4)}"


@app.command()
def prices(
    region: RegionOption = "us-east-1",
    as_of: AsOfOption = None,
    sources: SourcesOption = False,
    output: OutputOption = "table",
) -> None:
    """Show EBS prices of a region, by item."""
    from headrace.catalog import facts as catalog

    frame = catalog.prices(region, as_of)
    if output != "table":
        return print_frame(frame, output)
    from headrace.report.tables import show, table

    columns = ("product", "component", "above", "USD", "unit", "?", "seen last", "seen", "source")
    rows = [
        (row["product"], row["component"], f"{row['from_quantity']:,.0f}" if row["from_quantity"] else "", f"{row['usd']:g}", row["unit"],
         _mark(row), *(("", row["as_of"], row["source"]) if sources else (row["as_of"].rpartition(" ")[2], "", "")))
        for row in frame.to_dicts()
    ]  # fmt: skip
    columns, cells = without_empty(columns, rows, "?", "seen last", "seen", "source")
    show(
        table(columns, cells, title=f"EBS prices in {region}", right=("above", "USD"), keep=columns[:8], prose=("source",)),
        "",
        *unconfirmed(frame, lambda row: f"{row['product']} {row['component']}"),
        LOOK_UP if sources else ASK,
    )


@app.command("sources")
def list_sources(output: OutputOption = "table") -> None:
    """Show where all figures come from, with date and confidence."""
    from headrace.catalog import facts as catalog

    frame = catalog.sources()
    if output != "table":
        return print_frame(frame, output)
    from headrace.report.tables import show, table

    show(table(("id", "document", "as of", "confidence", "note"), frame.rows()))
