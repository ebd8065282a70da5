"""`headrace volume fault | faults | clear-fault | member`: what goes wrong, on purpose."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import typer

from headrace.cli.lab.common import percent
from headrace.cli.options import LabPlace, MemberOption, OutputOption, VolumeArgument, YesOption, choice, option
from headrace.cli.output import print_answer, say, table
from headrace.errors import InputError
from headrace.lab import Lab

EPILOG = """\b
Examples:
  headrace volume fault db pause --seconds 5
  headrace volume fault db latency --extra-ms 20 --seconds 60 --op write
  headrace volume fault db error --every 100 --seconds 10
  headrace volume fault db degraded --caps 20% --extra-ms 50 --seconds 60
  headrace volume fault db power-cut --in 30 --seed 7

power-cut drops or tears writes that were not flushed, the same ones for the same seed and the same requests; the
volume is without power until it is detached and attached again."""

Kind = Literal["pause", "latency", "error", "degraded", "power-cut"]
Action = Literal["fail", "slow", "restore", "replace"]
SOURCE = "headrace volume member --help"

CapsOption = Annotated[str | None, option("PERCENT", "Remaining share of the limits, like 20%.")]
ExtraOption = Annotated[float | None, option("MS", "Latency added to each request.", min=0)]


def fault(
    *,
    volume: VolumeArgument,
    kind: Annotated[Kind, typer.Argument(metavar="KIND", help="pause, latency, error, degraded or power-cut.")],
    place: LabPlace,
    in_s: Annotated[float | None, option("S", "Seconds from now. Default: 0; power-cut: 1.", "--in", min=0)] = None,
    seconds: Annotated[
        float | None, option("S", "Length of the fault in seconds. Default: pause 1, others 60.", min=0)
    ] = None,
    extra_ms: ExtraOption = None,
    every: Annotated[int | None, option("N", "error: each Nth request fails. Default: 1.", min=1)] = None,
    op: Annotated[Literal["read", "write", "any"] | None, choice("Only these requests. Default: any.")] = None,
    member: MemberOption = None,
    caps: CapsOption = None,
    seed: Annotated[int | None, option("N", "power-cut: a seed loses the same writes.", min=0, max=2**63 - 1)] = None,
    output: OutputOption = "table",
) -> None:
    """Let a device fail for a while: it does not answer, answers late, with errors or slowly; or
    the power goes."""
    caps_percent = percent(caps, "--caps")
    with place.open() as lab:
        started = lab.fault(
            volume,
            kind,
            in_s=in_s,
            seconds=seconds,
            extra_ms=extra_ms,
            every=every,
            op=op,
            member=member,
            caps_percent=caps_percent,
            seed=seed,
        )
    print_answer(started, output, [dict(started)], FAULT_CSV, lambda: (_table([started]),))


def list_faults(volume: VolumeArgument, place: LabPlace, output: OutputOption = "table") -> None:
    """List the faults of a device that are to come or last."""
    with place.open() as lab:
        faults = lab.faults(volume)
    print_answer(faults, output, [dict(fault) for fault in faults], FAULT_CSV, lambda: (_table(faults),))


def clear_fault(
    volume: VolumeArgument,
    place: LabPlace,
    fault: Annotated[
        str | None, typer.Argument(metavar="[FAULT]", help="Id of a fault. Default: all, degraded times too.")
    ] = None,
) -> None:
    """End a fault, or all of them."""
    with place.open() as lab:
        cleared = lab.clear_fault(volume, fault)
    say(f"{volume}: {cleared} fault{'s' * (cleared != 1)} cleared" + ("" if fault else ", and every degraded time"))


def member(
    *,
    volume: VolumeArgument,
    action: Annotated[
        Action,
        typer.Argument(
            metavar="ACTION",
            help="Action on the member: fail it, slow it down, restore it to full speed, or replace and rebuild it.",
        ),
    ],
    index: Annotated[int, typer.Argument(metavar="N", min=0, help="The member, counted from 0.")],
    place: LabPlace,
    caps: CapsOption = None,
    extra_ms: ExtraOption = None,
    mib_s: Annotated[
        int | None, option("MIB_S", "replace: the most the rebuild may use. Default: what members give.", min=1)
    ] = None,
    yes: YesOption = False,
) -> None:
    """Fail, slow down, restore or replace a member of an array. Asks before it fails a member that
    holds the last copy of its data."""
    caps_percent = percent(caps, "--caps")
    if action != "slow" and (caps is not None or extra_ms is not None):
        raise InputError(f"--caps or --extra-ms with {action}", "belong to slow alone", SOURCE, "Leave them out.")
    if action != "replace" and mib_s is not None:
        raise InputError(f"--mib-s with {action}", "belongs to replace alone", SOURCE, "Leave it out.")
    if action == "slow" and caps is None and extra_ms is None:
        raise InputError("slow", "needs --caps, --extra-ms or both", SOURCE, "For example --caps 20%.")
    with place.open() as lab:
        if action == "fail":
            _fail(lab, volume, index, yes)
        elif action == "slow":
            lab.slow_member(volume, index, caps_percent, extra_ms)
        elif action == "restore":
            lab.restore_member(volume, index)
        else:
            lab.replace_member(volume, index, mib_s)
    done = {"fail": "failed", "slow": "slow", "restore": "restored", "replace": "replaced, rebuilding"}
    say(f"{volume}: member {index} {done[action]}")


def _fail(lab: Lab, volume: str, index: int, yes: bool) -> None:
    """Fails a member. Asks where data would be lost with it; says where the next one would lose
    some. Raises InputError where nobody can be asked."""
    members = lab.describe(volume)["members"]
    if index < len(members) and members[index]["last_copy"]:
        gone = ", ".join(str(member["index"]) for member in members if member["state"] in ("failed", "rebuilding"))
        if not yes and not sys.stdin.isatty():
            rule = f"has the last copy of data that was on member {gone} too: they would be lost for good"
            raise InputError(f"{volume}: member {index}", rule, SOURCE, f"Replace member {gone} first, or add --yes.")
        what = f"Fail member {index} of {volume}? It has the last copy of data that was on member {gone} too."
        if not yes and not typer.confirm(what, err=True):
            say("nothing was failed")
            raise typer.Exit(1)
    after = lab.fail_member(volume, index)
    if alone := [str(member["index"]) for member in after["members"] if member["last_copy"]]:
        say(f"note: data are on member {', '.join(alone)} alone now: headrace volume member {volume} replace {index}")


FAULT_CSV = ("id", "kind", "starts_at", "ends_at", "seed")


def _table(rows: Sequence[Mapping[str, Any]]) -> Any:
    cells = [
        (row["id"], row["kind"], row.get("starts_at"), row.get("ends_at") or "until attached anew", row.get("seed"))
        for row in rows
    ]
    return table(("fault", "kind", "starts", "ends", "seed"), cells)
