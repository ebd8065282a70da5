"""`headrace failover`: another server takes over, by plan or because the source is dead."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headrace.base.processes import undisturbed
from headrace.cli import INTERRUPTED
from headrace.cli.options import CommandGroup, LabPlace, OutputOption, YesOption, choice, flag, option
from headrace.cli.output import print_answer, say, table
from headrace.cli.servers.confirming import confirm
from headrace.cli.servers.mysql import complete_server
from headrace.errors import CouldNotRun, InputError

if TYPE_CHECKING:
    from headrace.servers.failover.cluster import FailoverCluster
    from headrace.servers.failover.journal import Unfinished
    from headrace.servers.failover.planning.dry_run import DryRun
    from headrace.servers.failover.planning.members import FailoverWish, Members

EPILOG = """\b
Examples:
  sudo $(command -v headrace) failover status                       which guarantee holds now, and every trap of semi-sync
  sudo $(command -v headrace) failover watch --clients /run/shop/source.json
  sudo $(command -v headrace) failover acknowledge                  you have looked at a failover: watch may act again at once
  sudo $(command -v headrace) failover run --dry-run                the source is dead: every step, and the end
  sudo $(command -v headrace) failover run
  sudo $(command -v headrace) failover run --rescue                 read what no replica received from the dead source's volume
  sudo $(command -v headrace) failover switchover --to r2           by plan: the writes stop for less than a second
  sudo $(command -v headrace) failover rejoin db                    the old source comes back as a replica
  headrace failover status mysql://ops@db1:3306 mysql://ops@db2:3306

A failover that was cut off goes on when the same command is given again. docs/guide/failover.md says what each
guarantee means and what to do at a refusal."""

app = CommandGroup("Let another server take over, without losing what was acknowledged.", EPILOG)

Alone = Literal["serve", "refuse"]
Errant = Literal["refuse", "inject", "leave"]
ServersArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SERVER]...",
        help="Names of the lab's servers, or mysql://USER@HOST:PORT. Default: all of the lab with a port.",
        autocompletion=complete_server,
    ),
]
FromOption = Annotated[str | None, option("NAME", "The source. Default: the one that the others follow.", "--from")]
DryRunOption = Annotated[
    bool,
    flag(
        "--dry-run", "Print every step and the end, and change nothing (a source that answers writes a row of a probe)."
    ),
]
ClientsOption = Annotated[
    Path | None, option("FILE", "Write the new source's address there as JSON, for applications and proxies.")
]


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """Which servers are meant, and how their hosts are fenced."""

    ec2: Annotated[
        list[str] | None,
        option("NAME=INSTANCE[,VOLUME...]", "Fence this server by the EC2 API. Repeatable.", "--ec2"),
    ] = None
    rescue_on: Annotated[
        str,
        option("INSTANCE", "The instance this runs on, for --rescue of an EC2 volume. Default: as its firmware says."),
    ] = ""
    journal: Annotated[
        Path | None,
        option(
            "DIR", "Where journals are kept. Default: in the lab's directory (--data-dir, $HEADRACE_LAB).", "--journal"
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ChoiceOptions:
    """What to do where there is a choice."""

    accept_loss: Annotated[
        bool, flag("--accept-loss", "Go on although acknowledged commits may be missing; why is said.")
    ] = False
    rescue: Annotated[
        bool, flag("--rescue", "Read what no replica received from the dead source's volume (1 to 2 minutes on EC2).")
    ] = False
    fenced: Annotated[bool, flag("--fenced", "You made sure that the old source is dead and stays so.")] = False
    allow_delayed: Annotated[bool, flag("--allow-delayed", "A replica that is late on purpose may take over.")] = False
    errant: Annotated[Errant, choice("Transactions that one replica alone wrote.")] = "refuse"
    alone: Annotated[
        Alone,
        choice(
            "When no replica is left to acknowledge what the new source commits: take writes all the same, so that"
            " its own loss loses commits (it is said before and after), or stay down."
        ),
    ] = "serve"
    drain_s: Annotated[float, option("S", "Longest wait for a replica to apply what it received.", min=1)] = 3_600.0


ALONE = (
    "if no replica is left to acknowledge after a failover, the new source takes writes all the same, and its own loss"
    " would lose commits (--alone serve); --alone refuse stays down instead"
)
MaxWaitOption = Annotated[
    float,
    option("S", "Longest time without writes; then the source takes them again, and nothing is changed.", min=0.1),
]


@app.command()
def status(
    place: LabPlace,
    cluster: ClusterOptions,
    servers: ServersArgument = None,
    source: FromOption = None,
    output: OutputOption = "table",
) -> None:
    """Show who follows whom, which guarantee holds now, and what is wrong; exit code 1 then."""
    from headrace.servers.failover.cluster import source_in
    from headrace.servers.failover.planning.guarantee import guarantee_now
    from headrace.servers.failover.planning.semisync import traps

    with _opened(place, cluster, servers) as found, contextlib.closing(found.observer()) as observer:
        seen = observer.look()
        left = found.unfinished()
        name = source_in(seen, source, left)
    guarantee, wrong = guarantee_now(seen, seen[name]), traps(seen, seen[name])
    answer = {
        "source": name,
        "guarantee": guarantee.as_dict(),
        "traps": [vars(one) for one in wrong],
        "servers": [_row(seen, one, name) for one in sorted(seen)],
        "unfinished": None if left is None else {"source": left.wish.source, "kind": left.wish.kind},
    }
    print_answer(answer, output, answer["servers"], COLUMNS, lambda: (_table(answer["servers"]),))
    words = {"kept": "no acknowledged commit is lost with the source, as long as", "async": "commits may be lost with the source", "none": "nobody could take over"}  # fmt: skip
    say(f"guarantee now: {guarantee.level}: {words[guarantee.level]}")
    for text in (*guarantee.reasons, *guarantee.conditions):
        say(f"  - {text}")
    for one in wrong:
        say(f"{one.kind}: {one.server}: {one.what}. {one.do}")
    if left is not None:
        say(_cut_off(left))
    if left is not None or guarantee.level != "kept" or any(one.kind != "note" for one in wrong):
        raise typer.Exit(1)


@app.command()
def run(
    place: LabPlace,
    cluster: ClusterOptions,
    choices: ChoiceOptions,
    servers: ServersArgument = None,
    source: FromOption = None,
    to: Annotated[str | None, option("NAME", "Who is to take over. Default: the one that received the most.")] = None,
    clients: ClientsOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: OutputOption = "table",
) -> None:
    """Fail over: the source is dead. It is fenced, and a replica takes over."""
    _change("failover", place, cluster, choices, servers, source, to, clients, dry_run, yes, output)


@app.command()
def switchover(
    place: LabPlace,
    cluster: ClusterOptions,
    choices: ChoiceOptions,
    servers: ServersArgument = None,
    source: FromOption = None,
    to: Annotated[str | None, option("NAME", "Who is to take over. Default: the one that applied the most.")] = None,
    clients: ClientsOption = None,
    max_wait: MaxWaitOption = 10.0,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: OutputOption = "table",
) -> None:
    """Switch by plan: the source works, a replica takes over, the old source follows it.

    Writes go on until the replica is near; they are stopped for the rest alone."""
    _change("switchover", place, cluster, choices, servers, source, to, clients, dry_run, yes, output, max_wait)


@app.command()
def watch(
    place: LabPlace,
    cluster: ClusterOptions,
    choices: ChoiceOptions,
    servers: ServersArgument = None,
    source: FromOption = None,
    clients: ClientsOption = None,
    failovers: Annotated[int, option("N", "Stop after N failovers; 0: only watch and name what is wrong.", min=0)] = 1,
) -> None:
    """Watch the source twice a second, name traps, and fail over once when it is dead."""
    import threading

    from headrace.servers.failover.watcher import Watcher

    _check_clients(clients)
    with _opened(place, cluster, servers) as found, _ended_by_signals():
        executor = found.executor(clients, _say_with_time, choices.drain_s)
        try:
            wish = _wish("failover", executor.observer.look(), choices, source, None)
            if (left := found.unfinished()) is not None:
                _say_with_time(_cut_off(left))
            words = "" if failovers else "; it names what is wrong, and does not fail over (--failovers 0)"
            _say_with_time(f"watching {wish.source}{words}")
            if choices.alone == "serve" and failovers:
                _say_with_time(ALONE)
            watcher = Watcher(executor, wish, say=_say_with_time, acts=failovers > 0)
            try:
                outcomes = watcher.watch(threading.Event(), max(failovers, 1))
            except KeyboardInterrupt:
                raise _interruption(executor.interrupted(replace(wish, source=watcher.source))) from None
        finally:
            executor.close()
    for one in outcomes:
        say(
            f"{one.elected} is the source now; {'no acknowledged commit is missing' if one.lossless else 'see the journal for what may be missing'}"
        )
        if one.gives_up:
            say(f"given up: {one.gives_up}")


def _say_with_time(text: str) -> None:
    """A line on stderr with the time of this machine's clock."""
    say(f"{time.strftime('%H:%M:%S')}  {text}")


@app.command()
def acknowledge(
    place: LabPlace,
    cluster: ClusterOptions,
    servers: ServersArgument = None,
) -> None:
    """Say that you have looked at the last failover: `watch` may fail over again at once, and not
    only an hour after it."""
    from headrace.servers.failover.watcher import clock

    with _opened(place, cluster, servers) as found, contextlib.closing(found.journal()) as journal:
        last = journal.last_failover_at()
        if last is None:
            say("no failover by watch is to be acknowledged")
            return
        with journal.alone():
            journal.write("acknowledged")
    say(f"the failover of {clock(last)} is acknowledged: headrace failover watch may fail over again")


@app.command()
def rejoin(
    place: LabPlace,
    cluster: ClusterOptions,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The old source.", autocompletion=complete_server)],
    source: FromOption = None,
    diverged: Annotated[
        Literal["refuse", "rewind", "seed"],
        choice("What to do when it has transactions that the new source has not; they are listed in any case."),
    ] = "refuse",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: OutputOption = "table",
) -> None:
    """Bring the old source back as a replica. What only it has is written to a file first."""
    from headrace.servers.failover import rejoin as rejoining
    from headrace.servers.failover.interruption import words_after_rejoin

    with _opened(place, cluster, None) as found, _ended_by_signals():
        above, steps, end = rejoining.rejoin_plan(found, name, source, diverged)
        if dry_run:
            _show_steps([vars(one) for one in steps], REJOIN_COLUMNS, {"server": name, "source": above}, end, output)
            return
        if steps:
            question = f"Bring {name} back as a replica of {above}?"
            if any(one.action == "seed" for one in steps):
                question = f"Delete {name} with its data, and make it again from {above}?"
            confirm(yes, question)
        try:
            outcome = rejoining.rejoin(found, name, source, diverged, say)
        except KeyboardInterrupt as stopped:
            command = stopped.command if isinstance(stopped, rejoining.SeedInterrupted) else ""
            with undisturbed(), contextlib.closing(found.observer()) as observer:
                words = words_after_rejoin(observer.look(), name, above, command)
            raise _interruption(words) from None
    print_answer(outcome, output, [outcome], tuple(outcome), lambda: (_pairs(outcome),))
    if outcome["state"] == "diverged":
        raise typer.Exit(1)


# --- what they share ------------------------------------------------------------------------------


@contextlib.contextmanager
def _opened(place: LabPlace, options: ClusterOptions, servers: list[str] | None) -> Iterator[FailoverCluster]:
    from headrace.servers.failover.cluster import cluster_of, journal_folder

    if servers and all("://" in one for one in servers):
        folder = options.journal or journal_folder(place.data_dir, place.socket)
        yield cluster_of(servers, None, folder, options.ec2 or (), options.rescue_on)
        return
    with place.open() as lab:
        yield cluster_of(servers or (), lab, options.journal, options.ec2 or (), options.rescue_on)


def _check_clients(path: Path | None) -> None:
    """Raises InputError for a file that could not be written once the new source is open."""
    import os

    if path is None:
        return
    folder = path.parent
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        rule = (
            "is a folder"
            if path.is_dir()
            else f"cannot be written: {folder} is not a folder that this user may write to"
        )
        raise InputError(f"--clients {path}", rule, "docs/guide/failover.md", "Make the folder, or name another file.")
    if path.is_file() and not _is_address_file(path):
        rule = "exists already, and holds no address that a failover wrote"
        raise InputError(f"--clients {path}", rule, "docs/guide/failover.md", "Move it away, or name another file.")


def _is_address_file(path: Path) -> bool:
    """Whether a file is empty, or is one that applications read the source's address from."""
    import json

    from headrace.base.files import read_bytes

    content = read_bytes(path, 64 * 1024)  # an address is some 100 bytes
    try:
        return not content.strip() or {"host", "port"} <= set(json.loads(content)) <= {"host", "port", "name"}
    except (ValueError, TypeError):
        return False


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end as Ctrl-C does: a source that was closed takes writes again."""
    import signal

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    before = {one: signal.signal(one, end) for one in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _wish(kind: Any, seen: Members, choices: ChoiceOptions, source: str | None, to: str | None) -> FailoverWish:
    from headrace.servers.failover.cluster import source_in
    from headrace.servers.failover.planning.members import FailoverWish

    return FailoverWish(
        source=source_in(seen, source),
        kind=kind,
        target=to,
        by_hand=choices.fenced,
        accept_loss=choices.accept_loss,
        allow_delayed=choices.allow_delayed,
        errant=choices.errant,
        rescue=choices.rescue,
        alone=choices.alone,
    )


def _change(
    kind: str,
    place: LabPlace,
    cluster: ClusterOptions,
    choices: ChoiceOptions,
    servers: list[str] | None,
    source: str | None,
    to: str | None,
    clients: Path | None,
    dry_run: bool,
    yes: bool,
    output: Any,
    max_wait: float = 10.0,
) -> None:
    from headrace.servers.failover.planning.members import refused

    _check_clients(clients)
    with _opened(place, cluster, servers) as found, _ended_by_signals():
        executor = found.executor(clients, say, choices.drain_s)
        executor.max_wait_s = max_wait
        try:
            wish = _wish(kind, executor.observer.look(), choices, source or found.dead_source(), to)
            foreseen = executor.dry_run(wish)
            plan = foreseen.plan
            if dry_run:
                _show_plan(foreseen, output)
            if plan.refusal:
                raise refused(plan, wish.source)
            if dry_run:
                return
            if plan.gives_up:
                say(f"gives up: {plan.gives_up}")
            confirm(yes, f"{kind.capitalize()} from {wish.source} to {plan.elected or 'the best replica'}?")
            try:
                outcome = executor.run(wish)
            except KeyboardInterrupt:
                raise _interruption(executor.interrupted(wish)) from None
        finally:
            executor.close()
    answer = outcome.as_dict()
    print_answer(answer, output, [answer], tuple(answer), lambda: (_pairs(answer),))
    if outcome.gives_up:
        say(f"given up: {outcome.gives_up}")
    if not outcome.lossless or outcome.left_out or outcome.gives_up or outcome.clients:
        raise typer.Exit(1)


def _cut_off(left: Unfinished) -> str:
    """A change that was begun and not ended, and what finishes it, in words."""
    command = "switchover" if left.wish.kind == "switchover" else "run"
    again = f"headrace failover {command} --from {left.wish.source} finishes it"
    return f"problem: a {left.wish.kind} from {left.wish.source} was cut off: {again}"


def _interruption(words: str) -> CouldNotRun:
    """An interrupted change as an error: what it has left, and what finishes it."""
    return CouldNotRun("", f"Interrupted. {words}", exit_code=INTERRUPTED)


def _show_plan(foreseen: DryRun, output: Any) -> None:
    """Every step that a run would take, and the end."""
    plan, end = foreseen.plan, [] if foreseen.plan.refusal else foreseen.end_state()
    rows = [one.as_dict() for one in plan.steps]
    _show_steps(rows, PLAN_COLUMNS, plan.as_dict(), end, output)
    if plan.elected and not plan.refusal and not plan.lossless:
        say("acknowledged commits may be missing:")
    for text in () if plan.lossless else plan.uncertain:
        say(f"  - {text}")
    for name, reason in sorted(plan.left_out.items()):
        say(f"{name} would be left out: it {reason}")
    if plan.gives_up and not plan.refusal:
        say(f"gives up: {plan.gives_up}")


def _show_steps(
    rows: list[dict[str, Any]], columns: tuple[str, ...], answer: dict[str, Any], end: list[str], output: Any
) -> None:
    """Steps as a table, CSV or JSON, and how it would end."""
    shown = [one for one in columns if one not in ("gtid", "count")]
    cells = [[str(row[one] or (row.get("gtid") if one == "to" else "") or "-") for one in shown] for row in rows]
    whole = answer | {"steps": rows, "end": end}
    print_answer(whole, output, rows, columns, lambda: (table(tuple(shown), cells),) if rows else ())
    if end:
        say(f"in the end: {'; '.join(end)}")


PLAN_COLUMNS = ("stage", "action", "server", "to", "gtid", "count", "why")
REJOIN_COLUMNS = ("action", "server", "to", "why")
COLUMNS = ("name", "role", "follows", "receive", "apply", "executed", "read_only", "semi_sync", "error")


def _row(seen: Members, name: str, source: str) -> dict[str, Any]:
    one = seen[name]
    row: dict[str, Any] = {"name": name, "role": "source" if name == source else "replica", "error": one.error}
    if one.state is None:
        return row
    semi, channel = one.state.semi_sync, one.channel
    side = "source" if semi.source_status else "replica" if semi.replica_status else "off"
    places = {(each.host, each.port): each.name for each in seen.values()}
    row |= {"executed": str(one.state.executed), "read_only": one.state.read_only, "semi_sync": side}
    if channel is not None:
        follows = places.get((channel.source_host, channel.source_port), f"{channel.source_host}:{channel.source_port}")
        row |= {"follows": follows, "receive": channel.receive, "apply": channel.apply}
    return row


def _table(rows: list[dict[str, Any]]) -> Any:
    return table(COLUMNS, [["-" if row.get(key) in (None, "") else str(row[key]) for key in COLUMNS] for row in rows])


def _pairs(answer: dict[str, Any]) -> str:
    from headrace.cli.output import pairs

    return pairs(
        [(key.replace("_", " "), _words(value)) for key, value in answer.items() if value not in (None, "", [], {})]
    )


def _words(value: Any) -> str:
    """Times by their names in words; anything else as it is."""
    if isinstance(value, dict) and all(isinstance(one, float) for one in value.values()):
        return ", ".join(f"{name} {seconds:.3f} s" for name, seconds in value.items())
    return str(value)
