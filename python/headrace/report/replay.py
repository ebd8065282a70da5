"""What a replay found, in words."""

from __future__ import annotations

from headrace.report.words import number, span


def words_of(found: dict) -> list[str]:
    """Sentences: how many decisions are equal, where the first difference is, how late the device was."""
    requests, late, seconds = found["requests"], found["lateness"], found["span"] / 1e9
    lines = [f"{requests:,} requests and {found['changes']:,} changes over {span(seconds)}, repeated on the virtual clock."]
    if found["equal"] == requests:
        lines.append("Every decision is equal to the nanosecond.")
    else:
        first = found["first_difference"]
        lines.append(f"{requests - found['equal']:,} decisions differ. The first: request {first['request']:,}, {first['asked']}.")
        lines += [f"  recorded: {first['recorded']}", f"  replayed: {first['replayed']}"]
    if late["answers"]:
        quantiles = ", ".join(f"{name} {number(late[key] / 1e3)} us" for name, key in (("p50", "p50_ns"), ("p90", "p90_ns"), ("p99", "p99_ns"), ("p99.9", "p99_9_ns"), ("at most", "max_ns")))  # fmt: skip
        lines.append(f"The device answered late by {quantiles} ({late['answers']:,} answers): its clock, not the model's.")
    if found["cut_tail"]:
        lines.append("The record ends inside a frame: the device was killed while it wrote. What was whole was replayed.")
    return lines
