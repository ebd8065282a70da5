"""`headrace volume fault | faults | clear-fault | member`: what goes wrong, on purpose."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from headrace.cli.common import Output, OutputOption, say
from headrace.cli.lab_common import DataDirOption, MemberOption, SocketOption, VolumeArgument, percent, print_answer

FAULT_EPILOG = """\b
Examples:
  headrace volume fault db pause --seconds 5
  headrace volume fault db latency --extra-ms 20 --seconds 60 --op write
  headrace volume fault db error --every 100 --seconds 10
  headrace volume fault db degraded --caps 20% --extra-ms 50 --seconds 60
  headrace volume fault db power-cut --in 30 --seed 7

power-cut drops or tears writes that were not flushed, the same ones for the same seed and the same requests; the volume is without power until it is
detached and attached again."""


class Kind(StrEnum):
    """Faults of a device."""

    pause = "pause"
    latency = "latency"
    error = "error"
    degraded = "degraded"
    power_cut = "power-cut"


class Operation(StrEnum):
    """Which requests."""

    read = "read"
    write = "write"
    any = "any"


class Deed(StrEnum):
    """What is done to a member."""

    fail = "fail"
    slow = "slow"
    restore = "restore"
    replace = "replace"


CapsOption = Annotated[str | None, typer.Option("--caps", metavar="PERCENT", help="What is left of the limits, like 20%.")]
ExtraOption = Annotated[float | None, typer.Option("--extra-ms", metavar="MS", min=0, help="Latency added to each request.")]


def fault(
    volume: VolumeArgument,
    kind: Annotated[Kind, typer.Argument(metavar="KIND", help="pause, latency, error, degraded or power-cut.")],
    in_s: Annotated[
        float | None, typer.Option("--in", metavar="S", min=0, help="Seconds from now. Default: at once; power-cut: 1.")
    ] = None,
    seconds: Annotated[float | None, typer.Option("--seconds", metavar="S", min=0, help="How long. Default: pause 1, others 60.")] = None,
    extra_ms: ExtraOption = None,
    every: Annotated[int | None, typer.Option("--every", metavar="N", min=1, help="error: each Nth request fails. Default: 1.")] = None,
    op: Annotated[Operation | None, typer.Option("--op", help="Only these requests. Default: any.")] = None,
    member: MemberOption = None,
    caps: CapsOption = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="SEED", min=0, max=2**63 - 1, help="power-cut: same seed, same writes lost.")
    ] = None,
    output: OutputOption = Output.table,
    data_dir: DataDirOption = None,
    socket: SocketOption = None,
) -> None:
    """Let a device fail for a while: nothing answers, answers late, with errors, slowly; or the power goes."""
    from headrace.lab import Lab

    caps_percent = percent(caps, "--caps")
    with Lab(data_dir, socket) as lab:
        made = lab.fault(volume, kind, in_s, seconds, extra_ms, every, op, member, caps_percent, seed)
    print_answer(made, output, [made], FAULT_CSV, lambda: (_table([made]),))


def faults(
    volume: VolumeArgument, output: OutputOption = Output.table, data_dir: DataDirOption = None, socket: SocketOption = None
) -> None:
    """List the faults of a device that wait or last."""
    from headrace.lab import Lab

    with Lab(data_dir, socket) as lab:
        found = lab.faults(volume)
    print_answer(found, output, found, FAULT_CSV, lambda: (_table(found),))


def clear_fault(
    volume: VolumeArgument,
    fault: Annotated[str | None, typer.Argument(metavar="[FAULT]", help="Id of a fault. Default: all, degraded times too.")] = None,
    data_dir: DataDirOption = None,
    socket: SocketOption = None,
) -> None:
    """End a fault, or all of them."""
    from headrace.lab import Lab

    with Lab(data_dir, socket) as lab:
        cleared = lab.clear_fault(volume, fault)
    say(f"{volume}: {cleared} fault{'s' * (cleared != 1)} cleared" + ("" if fault else ", and every degraded time"))


def member(
    volume: VolumeArgument,
    deed: Annotated[Deed, typer.Argument(metavar="DEED", help="fail, slow, restore (end slowness) or replace (and rebuild).")],
    index: Annotated[int, typer.Argument(metavar="N", min=0, help="The member, counted from 0.")],
    caps: CapsOption = None,
    extra_ms: ExtraOption = None,
    mib_s: Annotated[
        int | None, typer.Option("--mib-s", metavar="MIB_S", min=1, help="replace: most of the rebuild. Default: what members give.")
    ] = None,
    data_dir: DataDirOption = None,
    socket: SocketOption = None,
) -> None:
    """Lose, slow, restore or replace a member of an array."""
    from headrace.errors import InputError
    from headrace.lab import Lab

    caps_percent = percent(caps, "--caps")
    if deed is not Deed.slow and (caps is not None or extra_ms is not None):
        raise InputError(f"--caps or --extra-ms with {deed}", "belong to slow alone", "headrace volume member --help", "Leave them out.")
    if deed is not Deed.replace and mib_s is not None:
        raise InputError(f"--mib-s with {deed}", "belongs to replace alone", "headrace volume member --help", "Leave it out.")
    if deed is Deed.slow and caps is None and extra_ms is None:
        raise InputError("slow", "needs --caps, --extra-ms or both", "headrace volume member --help", "For example --caps 20%.")
    with Lab(data_dir, socket) as lab:
        calls = {
            Deed.fail: lambda: lab.fail_member(volume, index),
            Deed.slow: lambda: lab.slow_member(volume, index, caps_percent, extra_ms),
            Deed.restore: lambda: lab.restore_member(volume, index),
            Deed.replace: lambda: lab.replace_member(volume, index, mib_s),
        }
        calls[deed]()
    done = {Deed.fail: "lost", Deed.slow: "slow", Deed.restore: "restored", Deed.replace: "replaced, rebuilding"}
    say(f"{volume}: member {index} {done[deed]}")


FAULT_CSV = ("id", "kind", "starts_at", "ends_at", "seed")


def _table(rows: list[dict]):
    from headrace.report.tables import table

    cells = [(row["id"], row["kind"], row.get("starts_at"), row.get("ends_at") or "until attached anew", row.get("seed")) for row in rows]
    return table(("fault", "kind", "starts", "ends", "seed"), cells)
