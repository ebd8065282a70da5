"""`headrace volume fault`: what goes wrong with a device or a member of an array, on purpose."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headrace.cli.lab.common import percent
from headrace.cli.options import LabPlace, MemberOption, OutputOption, VolumeArgument, YesOption, choice, option
from headrace.cli.output import print_answer, say, table
from headrace.errors import InputError
from headrace.lab import Lab

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


@dataclass(frozen=True, kw_only=True)
class FaultSettings:
    """The settings of a fault, in the words of the daemon's calls; None is its own value."""

    in_s: Annotated[float | None, option("S", "Seconds from now. Default: 0; power-cut: 1.", "--in", min=0)] = None
    seconds: Annotated[
        float | None, option("S", "Length of the fault in seconds. Default: pause 1, others 60.", min=0)
    ] = None
    extra_ms: Annotated[float | None, option("MS", "Latency added to each request.", min=0)] = None
    every: Annotated[int | None, option("N", "error: each Nth request fails. Default: 1.", min=1)] = None
    op: Annotated[Literal["read", "write", "any"] | None, choice("Only these requests. Default: any.")] = None
    member: MemberOption = None
    caps: Annotated[str | None, option("PERCENT", "Remaining share of the limits, like 20%.")] = None
    seed: Annotated[int | None, option("N", "power-cut: a seed loses the same writes.", min=0, max=2**63 - 1)] = None
    mib_s: Annotated[
        int | None, option("MIB_S", "replace: the most the rebuild may use. Default: what members give.", min=1)
    ] = None

    def list_given(self) -> list[str]:
        """Returns the names of the settings that were given."""
        return [name for name, value in vars(self).items() if value is not None]


def fault(
    *,
    volume: VolumeArgument,
    kind: Annotated[Kind | None, typer.Argument(metavar="[KIND]", help=KINDS)] = None,
    place: LabPlace,
    settings: FaultSettings,
    clear: Annotated[
        str | None, option("ID|all", "End the fault of this id; all: every fault, degraded times too.")
    ] = None,
    yes: YesOption = False,
    output: OutputOption = "table",
) -> None:
    """Let a device fail for a while: it does not answer, answers late, with errors or slowly; or
    the power goes, or a member of an array fails. Without a kind: list the faults that are to come
    or last."""
    if kind is None and settings.list_given():
        raise InputError(volume, "has settings of a fault, and no kind of it", SOURCE, "For example pause.")
    if kind is not None and clear is not None:
        raise InputError(f"{kind} and --clear", "begin a fault and end one", SOURCE, "Give one of them.")
    if kind in MEMBER_KINDS:
        return _change_member(place, volume, str(kind), settings, yes)
    if settings.mib_s is not None:
        raise InputError(f"--mib-s with {kind}", "belongs to replace alone", SOURCE, "Leave it out.")
    caps_percent = percent(settings.caps, "--caps")
    with place.open() as lab:
        if clear is not None:
            cleared, every = lab.clear_fault(volume, None if clear == "all" else clear), clear == "all"
            more = ", and every degraded time" if every else ""
            say(f"{volume}: {cleared} fault{'s' * (cleared != 1)} cleared{more}")
        elif kind is None:
            faults = lab.faults(volume)
            print_answer(faults, output, [dict(fault) for fault in faults], FAULT_CSV, lambda: (_table(faults),))
        else:
            started = lab.fault(
                volume,
                kind,
                in_s=settings.in_s,
                seconds=settings.seconds,
                extra_ms=settings.extra_ms,
                every=settings.every,
                op=settings.op,
                member=settings.member,
                caps_percent=caps_percent,
                seed=settings.seed,
            )
            print_answer(started, output, [dict(started)], FAULT_CSV, lambda: (_table([started]),))


def _change_member(place: LabPlace, volume: str, kind: str, settings: FaultSettings, yes: bool) -> None:
    """Fails, slows down, restores or replaces a member of an array. Raises InputError."""
    caps_percent, index = percent(settings.caps, "--caps"), settings.member
    if index is None:
        raise InputError(kind, "is of one member of an array", SOURCE, "Name it: --member N, counted from 0.")
    fitting = {"slow": ("member", "caps", "extra_ms"), "replace": ("member", "mib_s")}.get(kind, ("member",))
    if foreign := [name for name in settings.list_given() if name not in fitting]:
        name = "in" if foreign[0] == "in_s" else foreign[0].replace("_", "-")
        raise InputError(f"--{name} with {kind}", "is not a setting of it", SOURCE, "Leave it out.")
    if kind == "slow" and len(settings.list_given()) == 1:
        raise InputError("slow", "needs --caps, --extra-ms or both", SOURCE, "For example --caps 20%.")
    with place.open() as lab:
        if kind == "fail":
            _fail(lab, volume, index, yes)
        elif kind == "slow":
            lab.slow_member(volume, index, caps_percent, settings.extra_ms)
        elif kind == "restore":
            lab.restore_member(volume, index)
        else:
            lab.replace_member(volume, index, settings.mib_s)
    done = {"fail": "failed", "slow": "slow", "restore": "restored", "replace": "replaced, rebuilding"}
    say(f"{volume}: member {index} {done[kind]}")


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
