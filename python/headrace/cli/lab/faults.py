"""`headrace volume fault`: what goes wrong with a device or a member of an array, on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headrace.base.options import list_given
from headrace.cli.options import LabPlace, OutputOption, VolumeArgument, YesOption, option
from headrace.cli.output import confirm, print_answer, say, table
from headrace.errors import InputError
from headrace.lab import Lab
from headrace.lab.changes import FaultSettings

if TYPE_CHECKING:
    from headrace.lab.calls import Fault
    from headrace.report.view import Table

EPILOG = """\b
Examples:
  headrace volume fault db                      the faults that are to come or last
  headrace volume fault db pause --seconds 5
  headrace volume fault db latency --extra-ms 20 --seconds 60 --op write
  headrace volume fault db error --every 100 --seconds 10
  headrace volume fault db degraded --caps 20% --extra-ms 50 --seconds 60
  headrace volume fault db power-cut --in 30 --seed 7
  headrace volume fault db --clear all
  headrace volume fault array slow --member 1 --caps 20%        until it is restored
  headrace volume fault array fail --member 0                   until it is replaced

power-cut drops or tears writes that were not flushed, the same ones for the same seed and the same requests; the
volume is without power until it is detached and attached again. fail, slow, restore and replace are of one member of
an array (--member): replace begins to rebuild it. Before the last copy of data is lost, fail asks."""

MEMBER_KINDS = ("fail", "slow", "restore", "replace")
Kind = Literal["pause", "latency", "error", "degraded", "power-cut", "fail", "slow", "restore", "replace"]
KINDS = (
    "pause, latency, error, degraded, power-cut; of a member: fail, slow, restore, replace. Default: list the faults."
)
SOURCE = "headrace volume fault --help"


def fault(
    *,
    volume: VolumeArgument,
    kind: Annotated[Kind | None, typer.Argument(metavar="[KIND]", help=KINDS)] = None,
    place: LabPlace,
    settings: FaultSettings,
    mib_s: Annotated[
        int | None, option("MIB_S", "replace: the most the rebuild may use. Default: what members give.", min=1)
    ] = None,
    clear: Annotated[
        str | None, option("ID|all", "End the fault of this id; all: every fault, degraded times too.")
    ] = None,
    yes: YesOption = False,
    output: OutputOption = "table",
) -> None:
    """Let a device fail for a while: it does not answer, answers late, with errors or slowly; or
    the power goes, or a member of an array fails. Without a kind: list the faults that are to come
    or last."""
    if kind is None and (mib_s is not None or any(list_given(settings))):
        raise InputError(volume, "has settings of a fault, and no kind of it", SOURCE, "For example pause.")
    if kind is not None and clear is not None:
        raise InputError(f"{kind} and --clear", "begin a fault and end one", SOURCE, "Give one of them.")
    if mib_s is not None and kind != "replace":
        raise InputError(f"--mib-s with {kind}", "belongs to replace alone", SOURCE, "Leave it out.")
    if kind in MEMBER_KINDS:
        return _change_member(place, volume, str(kind), settings, mib_s, yes)
    with place.open() as lab:
        if clear is not None:
            cleared, every = lab.clear_fault(volume, None if clear == "all" else clear), clear == "all"
            more = ", and every degraded time" if every else ""
            say(f"{volume}: {cleared} fault{'s' * (cleared != 1)} cleared{more}")
        elif kind is None:
            faults = lab.faults(volume)
            print_answer(faults, output, [dict(fault) for fault in faults], FAULT_CSV, lambda: (_table(faults),))
        else:
            started = settings.begin(lab, volume, kind)
            print_answer(started, output, [dict(started)], FAULT_CSV, lambda: (_table([started]),))


def _change_member(
    place: LabPlace, volume: str, kind: str, settings: FaultSettings, mib_s: int | None, yes: bool
) -> None:
    """Fails, slows down, restores or replaces a member of an array. Raises InputError."""
    caps_percent, index = settings.caps_percent, settings.member
    if index is None:
        raise InputError(kind, "is of one member of an array", SOURCE, "Name it: --member N, counted from 0.")
    fitting = ("member", "caps", "extra_ms") if kind == "slow" else ("member",)
    for setting in list_given(settings):
        if setting.name not in fitting:
            raise InputError(f"{setting.flag} with {kind}", "is not a setting of it", SOURCE, "Leave it out.")
    if kind == "slow" and caps_percent is None and settings.extra_ms is None:
        raise InputError("slow", "needs --caps, --extra-ms or both", SOURCE, "For example --caps 20%.")
    with place.open() as lab:
        if kind == "fail":
            _fail(lab, volume, index, yes)
        elif kind == "slow":
            lab.slow_member(volume, index, caps_percent, settings.extra_ms)
        elif kind == "restore":
            lab.restore_member(volume, index)
        else:
            lab.replace_member(volume, index, mib_s)
    done = {"fail": "failed", "slow": "slow", "restore": "restored", "replace": "replaced, rebuilding"}
    say(f"{volume}: member {index} {done[kind]}")


def _fail(lab: Lab, volume: str, index: int, yes: bool) -> None:
    """Fails a member. Asks where data would be lost with it; says where the next one would lose
    some."""
    members = lab.describe(volume)["members"]
    if index < len(members) and members[index]["last_copy"]:
        gone = ", ".join(str(member["index"]) for member in members if member["state"] in ("failed", "rebuilding"))
        question = f"Fail member {index} of {volume}? It has the last copy of data that was on member {gone} too."
        what = f"has the last copy of data that was on member {gone} too: they would be lost for good"
        confirm(yes, question, f"{volume}: member {index}", what, f"Replace member {gone} first, or add --yes.")
    after = lab.fail_member(volume, index)
    if alone := [str(member["index"]) for member in after["members"] if member["last_copy"]]:
        say(
            f"note: data are on member {', '.join(alone)} alone now: headrace volume fault {volume} replace --member {index}"
        )


FAULT_CSV = ("id", "kind", "starts_at", "ends_at", "seed")


def _table(rows: Sequence[Fault]) -> Table:
    cells = [
        (row["id"], row["kind"], row.get("starts_at"), row.get("ends_at") or "until attached anew", row.get("seed"))
        for row in rows
    ]
    return table(("fault", "kind", "starts", "ends", "seed"), cells)
