"""`headrace catalog`: volume types, instances, prices and where the figures come from."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.common import AsOfOption, Output, OutputOption, RegionOption, complete_instance, complete_type, data

EPILOG = """\b
Examples:
  headrace catalog volumes --as-of 2018-08-15
  headrace catalog volumes --type gp3 --all-eras --output json
  headrace catalog instances --family m5 --region eu-west-1
  headrace catalog prices --region us-east-1 --output csv"""

app = typer.Typer(
    no_args_is_help=True, help="What volume types, instances and regions allowed and cost, by day, each row with its source.",
    epilog=EPILOG,
)  # fmt: skip

LOOK_UP = "Source ids are explained by: headrace catalog sources"


@app.command()
def volumes(
    type: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only this volume type.", autocompletion=complete_type)] = None,
    as_of: AsOfOption = None,
    all_eras: Annotated[bool, typer.Option("--all-eras", help="Every era there ever was, not only that of the day.")] = False,
    output: OutputOption = Output.table,
) -> None:
    """Limits of the volume types: size, IOPS, MiB/s, credits, durability."""
    from headrace import catalog

    frame = catalog.volumes(as_of, type, all_eras)
    if output is not Output.table:
        return print_frame(frame, output)
    from headrace.report.tables import show, table

    columns = ("type", "from", "until", "GiB", "IOPS", "throughput", "promise", "AFR %", "?", "source")
    rows = [
        (row["volume_type"], row["from"], row["until"] or "", f"{row['size_gib_min']:,}-{row['size_gib_max']:,}", row["iops"],
         row["throughput"],
         row["consistency"], _afr(row), _mark(row), row["source"])
        for row in frame.to_dicts()
    ]  # fmt: skip
    show(table(columns, rows), "", *unconfirmed(frame, lambda row: f"{row['volume_type']} since {row['from']}"), LOOK_UP)


def _mark(row: dict) -> str:
    return "?" if row["unconfirmed"] else ""


def unconfirmed(frame, name) -> list[str]:
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


NAMED = 6  # rows named in a note; more are counted


def _afr(row: dict) -> str:
    low, high = row["afr_percent_low"], row["afr_percent_high"]
    if low is None:
        return "" if row["persistent"] else "lost with the host"
    return f"{low:g}" if low == high else f"{low:g}-{high:g}"


@app.command()
def instances(
    family: Annotated[
        str | None,
        typer.Option("--family", metavar="FAMILY", help="m5, m5.large or a pattern such as 'r6i.*'.", autocompletion=complete_instance),
    ] = None,
    region: RegionOption = "us-east-1",
    as_of: AsOfOption = None,
    output: OutputOption = Output.table,
) -> None:
    """Instance types: EBS baseline and burst, memory, vCPUs, USD an hour."""
    from headrace import catalog

    frame = catalog.instances(as_of, region, family)
    if output is not Output.table:
        return print_frame(frame, output)
    from headrace.report.tables import show, table
    from headrace.report.words import number

    columns = ("instance", "vCPUs", "GiB", "EBS IOPS", "EBS MiB/s", "burst", "local GB", "USD/hour", "?", "price source", "price seen")
    rows = [
        (row["instance_type"], row["vcpus"], number(row["memory_gib"]), _from_to(row["baseline_iops"], row["max_iops"]),
         _from_to(row["baseline_mib_s"], row["max_mib_s"]), f"{row['burst_min']:g} min" if row["burst_min"] else "-",
         row["instance_store_gb"] or "", "-" if row["usd_hour"] is None else f"{row['usd_hour']:g}", _mark(row),
         row["price_source"], row["price_as_of"])
        for row in frame.to_dicts()
    ]  # fmt: skip
    right = ("vCPUs", "GiB", "EBS IOPS", "EBS MiB/s", "burst", "local GB", "USD/hour")
    held = "EBS: baseline > maximum; the maximum holds for `burst` from a full bucket, - : always."
    show(table(columns, rows, right=right), "", held, *unconfirmed(frame, lambda row: row["instance_type"]), LOOK_UP)


def _from_to(low: float | None, high: float | None) -> str:
    from headrace.report.words import number

    if high is None:
        return "not known"
    return number(high, 4) if low == high else f"{number(low, 4)} > {number(high, 4)}"


@app.command()
def prices(region: RegionOption = "us-east-1", as_of: AsOfOption = None, output: OutputOption = Output.table) -> None:
    """EBS prices of a region, by item."""
    from headrace import catalog

    frame = catalog.prices(region, as_of)
    if output is not Output.table:
        return print_frame(frame, output)
    from headrace.report.tables import show, table

    columns = ("product", "component", "above", "USD", "unit", "?", "source", "seen")
    rows = [
        (row["product"], row["component"], f"{row['from_quantity']:,.0f}" if row["from_quantity"] else "", f"{row['usd']:g}", row["unit"],
         _mark(row), row["source"], row["as_of"])
        for row in frame.to_dicts()
    ]  # fmt: skip
    show(
        table(columns, rows, title=f"EBS prices in {region}", right=("above", "USD")),
        "",
        *unconfirmed(frame, lambda row: f"{row['product']} {row['component']}"),
        LOOK_UP,
    )


@app.command()
def sources(output: OutputOption = Output.table) -> None:
    """Where all figures come from, with date and confidence."""
    from headrace import catalog

    frame = catalog.sources()
    if output is not Output.table:
        return print_frame(frame, output)
    from headrace.report.tables import show, table

    show(table(("id", "document", "as of", "confidence", "note"), frame.rows()))


def print_frame(frame, output: Output) -> None:
    """Every row of a frame as JSON or CSV."""
    from headrace.report.output import as_csv, as_json

    data(as_json(frame.to_dicts()) if output is Output.json else as_csv(frame))
