"""Checks the events of volumes in a simulation: a snapshot, a modification, degradations."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.base.options import INITIALIZATION_RATE
from headrace.base.units import GIB, MIB
from headrace.errors import InputError, Refusals

refuse = Refusals("headrace simulate --help")
NS_PER_S = 1_000_000_000  # ns in a second: the core counts time in ns
# Options of a simulation or of one event as the core takes them: numbers, texts, and lists of them.
EventOptions = dict[str, Any]


def check_events(storage: str, options: EventOptions, length_s: float) -> None:
    """Raises InputError if an event in the `options` of a simulation is impossible on the storage,
    or does not begin within a run of `length_s`."""
    with translate_core_errors():
        parsed = core.parse_storage(storage)
    if options.get("modify"):
        _check_modification(options["modify"], parsed, length_s)
    if options.get("snapshot"):
        _check_snapshot(options["snapshot"], parsed)
    _check_degradations(options, length_s)


def _check_modification(modify: EventOptions, before: core.ParsedStorage, length_s: float) -> None:
    """Raises InputError if the target of a modification has another layout than the storage, or
    takes effect after the end of the run."""
    with translate_core_errors():
        after = core.parse_storage(modify["storage"])
    if len(after["members"]) != len(before["members"]) or any(
        member != after["members"][0] for member in after["members"]
    ):
        rule = f"must have the layout of {before['text']}, with equal members"
        raise InputError(after["text"], rule, "Amazon EC2 API, ModifyVolume", "Only the volumes change, not the array.")
    start_s = modify.get("modifying_until_s")
    if isinstance(start_s, (int, float)) and start_s >= length_s:
        value = f"modification to {after['text']} that takes effect at {start_s:,.10g} s"
        raise _refuse_late_event(value, length_s)


def _check_snapshot(snapshot: EventOptions, parsed: core.ParsedStorage) -> None:
    """Raises InputError for a snapshot larger than the storage, and for an initialization rate that
    AWS does not sell."""
    written_gib = snapshot["written_bytes"] / GIB
    if written_gib > parsed["usable_gib"]:
        rule = f"is more than {parsed['text']} holds: {parsed['usable_gib']:,} GiB"
        source = "Amazon EC2 API, CreateVolume: a volume is at least as large as its snapshot"
        raise InputError(f"snapshot of {written_gib:,.10g} GiB", rule, source, "Take a larger volume, or less data.")
    least, most = INITIALIZATION_RATE.least, INITIALIZATION_RATE.most
    rate = snapshot.get("initialization_bytes_s")
    if isinstance(rate, (int, float)) and least and most and not least * MIB <= rate <= most * MIB:
        rule, source = f"AWS sells {least:g} to {most:g} MiB/s", "data/rules.toml, snapshot_restore"
        hint = "Give a rate in that range, or none: blocks then load on first touch alone."
        raise InputError(f"initialization rate of {rate / MIB:,.10g} MiB/s", rule, source, hint)


def _check_degradations(options: EventOptions, length_s: float) -> None:
    """Raises InputError if degradations of a member overlap (the model follows the first alone), or
    one begins after the end of the run. Options that are not degradations are left to the core."""
    by_member: dict[int, list[_Degradation]] = {}
    try:
        for member, event in options.get("degradations") or ():
            span = _Degradation(event["from"] / NS_PER_S, event["until"] / NS_PER_S, event["caps_per_mille"] / 10)
            by_member.setdefault(member, []).append(span)
    except (TypeError, ValueError, KeyError):
        return
    for member, spans in by_member.items():
        late = next((span for span in spans if span.start_s >= length_s), None)
        if late is not None:
            raise _refuse_late_event(f"degradation of member {member}, {late}", length_s)
        for before, after in pairwise(sorted(spans)):
            if after.start_s < before.end_s:
                rule = f"overlaps another of this member, {before}"
                hint = "Let one begin where the other ends (--degrade)."
                raise refuse.input(f"degradation of member {member}, {after}", rule, hint)


class _Degradation(NamedTuple):
    """A time in which a volume delivers `caps_percent` of its limits."""

    start_s: float
    end_s: float
    caps_percent: float

    def __str__(self) -> str:
        return f"{self.start_s:,.10g} to {self.end_s:,.10g} s at {self.caps_percent:g} %"


def _refuse_late_event(value: str, length_s: float) -> InputError:
    """Returns the refusal of an event after the end of the run."""
    hint = "Let it begin earlier, or simulate for longer."
    return refuse.input(value, f"is not in the run, which ends at {length_s:,.10g} s", hint)
