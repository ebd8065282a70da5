"""Words for a workload: what `workload show` prints, from the figures of its summary."""

from __future__ import annotations

from headrace.base.units import HOUR_S, describe_span, format_percent


def describe_open(summary: dict, pattern: str, source: dict, notes: tuple[str, ...]) -> str:
    """Describes an open workload in lines of text from its summary: demand, sizes, growth, source
    and `notes` as caveats. `pattern` is the text of `describe_pattern`."""
    lines = [
        f"{summary['name']}: {summary['kind']} demand over {describe_span(summary['span_s'])}, "
        f"{summary['points']:,} point{'s' if summary['points'] > 1 else ''} of {_describe_point_lengths(summary)}."
    ]
    if summary["read_share"] is None:
        lines.append("It asks for no I/O at all.")
    else:
        lines += [*_describe_demand(summary), *([pattern] if pattern else [])]
    if summary["size_gib"] is not None:
        lines.append(f"The volume must hold {summary['size_gib']:,.4g} GiB.")
    if summary["growth_per_year"]:
        lines.append(
            f"Demand is expected to change by {format_percent(summary['growth_per_year'], 0, sign='+')} a year (not yet in these figures)."
        )
    if "tool" in source:
        lines.append("Source: " + describe_source(source) + ".")
    return "\n".join([*lines, *(f"Caveat: {note}" for note in notes)])


def describe_pattern(sequential_reads: float, sequential_writes: float, arrivals: str) -> str:
    """Returns lines on the shares (0 to 1) of sequential I/Os and on even arrivals; an empty text
    without either."""
    lines = []
    if sequential_reads or sequential_writes:
        lines.append(
            f"Sequential: {format_percent(sequential_reads)} of the reads, {format_percent(sequential_writes)} of the writes."
        )
    if arrivals == "even":
        lines.append("I/Os inside a point arrive evenly spaced.")
    return "\n".join(lines)


def _describe_demand(figures: dict) -> list[str]:
    """Says mean, 95th percentile and peak of the demand in IOPS and MiB/s, its mixture, and the
    busiest hour of a longer recording."""
    read = figures["read_share"]
    when = (
        f"from {figures['busiest_hour_clock']}"
        if figures["busiest_hour_clock"]
        else (f"from {describe_span(figures['busiest_hour_start_s'])} after the start")
    )
    lines = [
        f"On average {figures['mean_iops']:,.0f} IOPS and {figures['mean_mib_s']:,.1f} MiB/s; "
        f"95 % of the time at most {figures['p95_iops']:,.0f} IOPS and {figures['p95_mib_s']:,.1f} MiB/s; "
        f"peak {figures['peak_iops']:,.0f} IOPS, {figures['peak_mib_s']:,.1f} MiB/s.",
        _describe_mix(figures, read),
    ]
    if figures["span_s"] > HOUR_S:
        lines.append(
            f"Busiest hour: {when}, {figures['busiest_hour_iops']:,.0f} IOPS and {figures['busiest_hour_mib_s']:,.1f} MiB/s on average."
        )
    return lines


def _describe_mix(figures: dict, read_share: float) -> str:
    """Returns a sentence on the shares of reads and writes and their mean sizes in KiB."""
    if read_share in (0.0, 1.0):
        return f"All I/Os are {'reads' if read_share else 'writes'} ({figures['mean_io_kib']:.1f} KiB on the mean)."
    return (
        f"{format_percent(read_share)} of the I/Os are reads (mean {figures['mean_read_kib']:.1f} KiB), "
        f"the rest writes (mean {figures['mean_write_kib']:.1f} KiB); "
        f"all together {figures['mean_io_kib']:.1f} KiB an I/O."
    )


def describe_closed(summary: dict, sequential: bool, caveats: tuple[str, ...]) -> str:
    """Describes a closed workload in lines of text from its summary, with its caveats."""
    read_share, jobs = summary["read_share"], summary["numjobs"]
    what = {1.0: "reads", 0.0: "writes"}.get(read_share, f"I/Os, {format_percent(read_share)} of them reads")
    lines = [
        f"{summary['name']}: {'sequential' if sequential else 'random'} "
        f"{summary['bs_kib']:g} KiB {what}, as fast as the volume allows "
        f"with {summary['queue_depth']:,} in flight ({jobs:,} "
        f"job{'s' if jobs > 1 else ''}, depth {summary['iodepth']:,} each)."
    ]
    if summary["size_gib"] is not None:
        lines.append(f"It runs over {summary['size_gib']:,.4g} GiB.")
    return "\n".join([*lines, *(f"Caveat: {caveat}" for caveat in caveats)])


def describe_source(source: dict) -> str:
    """Writes the source of a workload: `iostat, file db1.txt, device nvme1n1, from
    2025-11-21T10:00:00`."""
    parts = [str(source["tool"])]
    for key, word in (("file", "file"), ("device", "device"), ("clock_start", "from")):
        if source.get(key):
            parts.append(f"{word} {source[key]}")
    if source.get("scaled_by"):
        parts.append(f"scaled by {source['scaled_by']:g}")
    return ", ".join(parts)


def _describe_point_lengths(figures: dict) -> str:
    shortest, longest = figures["shortest_point_s"], figures["longest_point_s"]
    return describe_span(shortest) if shortest == longest else f"{describe_span(shortest)} to {describe_span(longest)}"
