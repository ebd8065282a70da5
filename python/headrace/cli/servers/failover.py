"""`headrace failover`: another server takes over, by plan or because the source is dead."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headrace.base.files import read_bytes
from headrace.base.lazy import defer_imports
from headrace.base.signals import ends_as_interrupts, ignore_interrupts
from headrace.cli import INTERRUPTED
from headrace.cli.options import (
    CommandGroup,
    LabPlace,
    Output,
    OutputOption,
    YesOption,
    make_choice,
    make_flag,
    make_option,
)
from headrace.cli.output import confirm, exit_if, format_pairs, make_table, print_answer, say
from headrace.cli.servers.mysql import complete_server
from headrace.cli.sharing import read_epilog
from headrace.errors import CouldNotRun, InputError

if TYPE_CHECKING:
    from headrace.report.view import Table
    from headrace.servers.failover.cluster import FailoverCluster
    from headrace.servers.failover.planning.dry_run import DryRun
    from headrace.servers.failover.planning.members import Members
    from headrace.servers.failover.planning.progress import Progress

with defer_imports():
    from headrace.report.replication import members as member_words
    from headrace.servers.failover import cluster as cluster_module
    from headrace.servers.failover import interruption
    from headrace.servers.failover import rejoin as failover_rejoin
    from headrace.servers.failover import watcher as failover_watcher
    from headrace.servers.failover.planning import guarantee as planning_guarantee
    from headrace.servers.failover.planning import members, progress, semisync

EPILOG = read_epilog("failover")

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
FromOption = Annotated[
    str | None, make_option("NAME", "The source. Default: the one that the others follow.", "--from")
]
DryRunOption = Annotated[
    bool,
    make_flag(
        "--dry-run", "Print every step and the end, and change nothing (a source that answers gets one row as a probe)."
    ),
]


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """The servers of a cluster, and the way to fence their hosts."""

    ec2: Annotated[
        list[str] | None,
        make_option("NAME=INSTANCE[,VOLUME...]", "Fence this server by the EC2 API. Repeatable.", "--ec2"),
    ] = None
    rescue_on: Annotated[
        str,
        make_option(
            "INSTANCE", "EC2 instance of this machine, for --rescue of an EC2 volume. Default: as its firmware says."
        ),
    ] = ""
    journal: Annotated[
        Path | None,
        make_option(
            "DIR", "Folder of the journals. Default: in the lab's directory (--lab, $HEADRACE_LAB).", "--journal"
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ChoiceOptions:
    """Decisions that the user takes for a failover, by the names that its wish has for them."""

    accept_loss: Annotated[
        bool, make_flag("--accept-loss", "Go on although acknowledged commits may be missing; the reason is printed.")
    ] = False
    rescue: Annotated[
        bool,
        make_flag("--rescue", "Read what no replica received from the dead source's volume (1 to 2 minutes on EC2)."),
    ] = False
    by_hand: Annotated[
        bool, make_flag("--fenced", "Assert that the old source is dead and stays dead: you made sure of it.")
    ] = False
    allow_delayed: Annotated[bool, make_flag("--allow-delayed", "Allow promotion of a delayed replica.")] = False
    errant: Annotated[Errant, make_choice("Treatment of transactions that only a replica has.")] = "refuse"
    alone: Annotated[
        Alone,
        make_choice(
            "Decision if no replica can acknowledge commits of the new source: serve writes, which are lost if it dies"
            " (announced before and after), or refuse them."
        ),
    ] = "serve"


@dataclass(frozen=True, kw_only=True)
class WatchOptions(ClusterOptions, ChoiceOptions):
    """A cluster, with the decisions for its failover."""

    drain_s: Annotated[
        float, make_option("S", "Longest wait in seconds for a replica to apply what it received.", min=1)
    ] = 3_600.0
    servers: ServersArgument = None
    source: FromOption = None
    clients: Annotated[
        Path | None, make_option("FILE", "File for the new source's address as JSON, for applications and proxies.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class ChangeOptions(WatchOptions):
    """A change of the source that a user starts."""

    dry_run: DryRunOption = False
    yes: YesOption = False
    output: OutputOption = "table"


app = CommandGroup(
    "Let another server take over, without losing what was acknowledged.", EPILOG, shares=(ChangeOptions,)
)
ALONE = (
    "if no replica is left to acknowledge after a failover, the new source takes writes all the same, and its own loss"
    " would lose commits (--alone serve); --alone refuse stays down instead"
)
MaxWaitOption = Annotated[
    float,
    make_option("S", "Longest time without writes; then the source takes them again, and nothing is changed.", min=0.1),
]


@app.command()
def status(
    place: LabPlace,
    cluster: ClusterOptions,
    servers: ServersArgument = None,
    source: FromOption = None,
    acknowledge: Annotated[
        bool,
        make_flag(
            "--acknowledge",
            "Say that you have looked at the last failover: `watch` may fail over again at once, not only after an hour.",
        ),
    ] = False,
    output: OutputOption = "table",
) -> None:
    """Show who follows whom, which guarantee holds now, and what is wrong; exit code 1 then."""
    with (
        _open_cluster(place, cluster, servers) as failover_cluster,
        contextlib.closing(failover_cluster.make_observer()) as observer,
    ):
        if acknowledge:
            _acknowledge(failover_cluster)
        seen = observer.look()
        unfinished = failover_cluster.read_unfinished()
        name = cluster_module.find_source(seen, source, unfinished)
    guarantee, traps = planning_guarantee.judge_guarantee(seen, seen[name]), semisync.list_traps(seen, seen[name])
    answer = {
        "source": name,
        "guarantee": guarantee.to_dict(),
        "traps": [vars(trap) for trap in traps],
        "servers": [_make_row(seen, member, name) for member in sorted(seen)],
        "unfinished": None if unfinished is None else {"source": unfinished.source, "kind": unfinished.kind},
    }
    print_answer(answer, output, answer["servers"], COLUMNS, lambda: (_build_table(answer["servers"]),))
    first, *details = member_words.describe_guarantee(guarantee)
    say(first)
    for text in details:
        say(f"  - {text}")
    for trap in traps:
        say(f"{trap.kind}: {trap.server}: {trap.what}. {trap.do}")
    if unfinished is not None:
        say(_describe_cut_off(unfinished))
    exit_if(unfinished is not None or guarantee.level != "kept" or any(trap.kind != "note" for trap in traps))


def _acknowledge(failover_cluster: FailoverCluster) -> None:
    """Writes into the journal that the user acknowledges the last failover by watch, so that watch
    may fail over again; says if there is none."""
    with contextlib.closing(failover_cluster.open_journal()) as journal:
        last = journal.read().failed_over_at
        if last is None:
            say("no failover by watch is to be acknowledged")
            return
        with journal.lock():
            journal.write(progress.Acknowledged())
    say(
        f"the failover of {failover_watcher.format_clock(last)} is acknowledged: headrace failover watch may fail over again"
    )


@app.command()
def run(
    place: LabPlace,
    change: ChangeOptions,
    to: Annotated[
        str | None, make_option("NAME", "Replica that takes over. Default: the one that received the most.")
    ] = None,
) -> None:
    """Fail over from a dead source: fence it, and let a replica take over."""
    _change("failover", place, change, to)


@app.command()
def switchover(
    place: LabPlace,
    change: ChangeOptions,
    to: Annotated[
        str | None, make_option("NAME", "Replica that takes over. Default: the one that applied the most.")
    ] = None,
    max_wait: MaxWaitOption = 10.0,
) -> None:
    """Switch over from a source that works to a replica; the old source then follows it.

    Writes are stopped only while the replica applies the last transactions."""
    _change("switchover", place, change, to, max_wait)


@app.command()
def watch(
    place: LabPlace,
    options: WatchOptions,
    failovers: Annotated[
        int, make_option("N", "Stop after N failovers; 0: only watch and report problems.", min=0)
    ] = 1,
) -> None:
    """Watch the source twice a second, name traps, and fail over once when it is dead."""
    _check_clients(options.clients)
    with _open_cluster(place, options, options.servers) as failover_cluster, ends_as_interrupts():
        executor = failover_cluster.make_executor(options.clients, _say_with_time, options.drain_s)
        try:
            wish = _make_wish("failover", executor.observer.look(), options, options.source, None)
            if (unfinished := failover_cluster.read_unfinished()) is not None:
                _say_with_time(_describe_cut_off(unfinished))
            words = "" if failovers else "; it names what is wrong, and does not fail over (--failovers 0)"
            _say_with_time(f"watching {wish.source}{words}")
            if options.alone == "serve" and failovers:
                _say_with_time(ALONE)
            watcher = failover_watcher.Watcher(executor, wish, say=_say_with_time, acts=failovers > 0)
            try:
                outcomes = watcher.watch(threading.Event(), max(failovers, 1))
            except KeyboardInterrupt:
                raise _make_interruption(executor.describe_interruption(replace(wish, source=watcher.source))) from None
        finally:
            executor.close()
    for outcome in outcomes:
        say(
            f"{outcome.elected} is the source now; {'no acknowledged commit is missing' if outcome.lossless else 'see the journal for what may be missing'}"
        )
        if outcome.gives_up:
            say(f"given up: {outcome.gives_up}")


def _say_with_time(text: str) -> None:
    """Prints a line on stderr with the time of this machine's clock."""
    say(f"{time.strftime('%H:%M:%S')}  {text}")


@app.command()
def rejoin(
    *,
    place: LabPlace,
    cluster: ClusterOptions,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The old source.", autocompletion=complete_server)],
    source: FromOption = None,
    diverged: Annotated[
        Literal["refuse", "rewind", "seed"],
        make_choice("Treatment of transactions that the new source lacks; they are listed in any case."),
    ] = "refuse",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: OutputOption = "table",
) -> None:
    """Bring the old source back as a replica. Transactions that only it has are written to a file
    first."""
    with _open_cluster(place, cluster, None) as failover_cluster, ends_as_interrupts():
        above, steps, end = failover_rejoin.rejoin_plan(failover_cluster, name, source, diverged)
        if dry_run:
            _show_steps([vars(step) for step in steps], REJOIN_COLUMNS, {"server": name, "source": above}, end, output)
            return
        if steps:
            question = f"Bring {name} back as a replica of {above}?"
            if any(step.action == "seed" for step in steps):
                question = f"Delete {name} with its data, and make it again from {above}?"
            confirm(yes, question)
        try:
            outcome = failover_rejoin.rejoin(failover_cluster, name, source, diverged, say)
        except KeyboardInterrupt as stopped:
            state = stopped.state if isinstance(stopped, failover_rejoin.RejoinInterrupted) else ""
            with ignore_interrupts(), contextlib.closing(failover_cluster.make_observer()) as observer:
                words = interruption.describe_rejoin(observer.look(), name, above, state)
            raise _make_interruption(words) from None
    print_answer(outcome, output, [dict(outcome)], tuple(outcome), lambda: (_format_pairs(outcome),))
    exit_if(outcome["state"] == "diverged")


# --- what they share ------------------------------------------------------------------------------


@contextlib.contextmanager
def _open_cluster(place: LabPlace, options: ClusterOptions, servers: list[str] | None) -> Iterator[FailoverCluster]:
    """Yields the cluster of these servers: addresses, or names of the lab's servers; None: all
    servers of the lab. Raises NoLab."""
    if servers and all("://" in name for name in servers):
        folder = options.journal or cluster_module.get_journal_folder(place.data_dir, place.socket)
        yield cluster_module.make_cluster(servers, None, folder, options.ec2 or (), options.rescue_on)
        return
    with place.open() as lab:
        yield cluster_module.make_cluster(servers or (), lab, options.journal, options.ec2 or (), options.rescue_on)


def _check_clients(path: Path | None) -> None:
    """Raises InputError for a file of the source's address that could not be written, or that holds
    something else, before a failover begins."""
    if path is None:
        return
    folder = path.parent
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        rule = "is a folder"
        if not path.is_dir():
            rule = f"cannot be written: {folder} is not a folder that this user may write to"
        raise InputError(f"--clients {path}", rule, "docs/guide/failover.md", "Make the folder, or name another file.")
    if path.is_file() and not _is_address_file(path):
        rule = "exists already, and holds no address that a failover wrote"
        raise InputError(f"--clients {path}", rule, "docs/guide/failover.md", "Move it away, or name another file.")


def _is_address_file(path: Path) -> bool:
    """Returns whether a file is empty, or is one that applications read the source's address
    from."""
    content = read_bytes(path, 64 * 1024)  # an address is some 100 bytes
    try:
        return not content.strip() or {"host", "port"} <= set(json.loads(content)) <= {"host", "port", "name"}
    except (ValueError, TypeError):
        return False


def _make_wish(
    kind: members.ChangeKind, seen: Members, options: WatchOptions, source: str | None, to: str | None
) -> members.FailoverWish:
    """Returns the change that the options ask for. `source`: None: the server that the others
    follow; `to`: None: the best replica. Raises InputError."""
    choices = {field.name: getattr(options, field.name) for field in fields(ChoiceOptions)}
    return members.FailoverWish(source=cluster_module.find_source(seen, source), kind=kind, target=to, **choices)


def _change(
    kind: members.ChangeKind, place: LabPlace, change: ChangeOptions, to: str | None, max_wait: float = 10.0
) -> None:
    """Plans a failover or switchover, asks, runs it and prints the outcome; with --dry-run it
    prints the plan alone. `max_wait`: longest time without writes, s. Ends with exit code 1 where
    commits may be missing or something was left out or given up."""
    _check_clients(change.clients)
    with _open_cluster(place, change, change.servers) as failover_cluster, ends_as_interrupts():
        executor = failover_cluster.make_executor(change.clients, say, change.drain_s)
        executor.max_wait_s = max_wait
        try:
            wish = _make_wish(
                kind, executor.observer.look(), change, change.source or failover_cluster.find_dead_source(), to
            )
            foreseen = executor.preview_run(wish)
            plan = foreseen.plan
            if change.dry_run:
                _show_plan(foreseen, change.output)
                if plan.refusal:
                    raise members.make_refusal_error(plan, wish.source)
                return
            executor.check_foreseen(wish, foreseen)
            if plan.gives_up:
                say(f"gives up: {plan.gives_up}")
            confirm(change.yes, f"{kind.capitalize()} from {wish.source} to {plan.elected or 'the best replica'}?")
            try:
                outcome = executor.run(wish)
            except KeyboardInterrupt:
                raise _make_interruption(executor.describe_interruption(wish)) from None
        finally:
            executor.close()
    answer = outcome.to_dict()
    print_answer(answer, change.output, [answer], tuple(answer), lambda: (_format_pairs(answer),))
    if outcome.gives_up:
        say(f"given up: {outcome.gives_up}")
    exit_if(not outcome.lossless or outcome.left_out or outcome.gives_up or outcome.clients)


def _describe_cut_off(unfinished: Progress) -> str:
    """Describes a change that was begun and not ended, with the command that finishes it."""
    command = "switchover" if unfinished.kind == "switchover" else "run"
    again = f"headrace failover {command} --from {unfinished.source} finishes it"
    return f"problem: a {unfinished.kind} from {unfinished.source} was cut off: {again}"


def _make_interruption(words: str) -> CouldNotRun:
    """Returns the error of an interrupted change. `words`: what it has left, and what finishes
    it."""
    return CouldNotRun("", f"Interrupted. {words}", exit_code=INTERRUPTED)


def _show_plan(foreseen: DryRun, output: Output) -> None:
    """Prints the steps of a plan, and says which commits and servers would be left out."""
    plan, end = foreseen.plan, [] if foreseen.plan.refusal else foreseen.describe_end_state()
    rows = [step.to_dict() for step in plan.steps]
    _show_steps(rows, PLAN_COLUMNS, plan.to_dict(), end, output)
    if plan.elected and not plan.refusal and not plan.lossless:
        say("acknowledged commits may be missing:")
    for text in () if plan.lossless else plan.uncertain:
        say(f"  - {text}")
    for name, reason in sorted(plan.left_out.items()):
        say(f"{name} would be left out: it {reason}")
    if plan.gives_up and not plan.refusal:
        say(f"gives up: {plan.gives_up}")


def _show_steps(
    rows: list[dict[str, object]],
    columns: tuple[str, ...],
    answer: dict[str, object],
    end: list[str],
    output: Output,
) -> None:
    """Prints steps in the form asked for. `answer`: further keys of JSON; `end`: sentences about
    the state after the steps, which go to stderr too."""
    table_columns = [column for column in columns if column not in ("gtid", "count")]
    cells = [
        [str(row[column] or (row.get("gtid") if column == "to" else "") or "-") for column in table_columns]
        for row in rows
    ]
    document = answer | {"steps": rows, "end": end}
    print_answer(document, output, rows, columns, lambda: (make_table(table_columns, cells),) if rows else ())
    if end:
        say(f"in the end: {'; '.join(end)}")


PLAN_COLUMNS = ("stage", "action", "server", "to", "gtid", "count", "why")
REJOIN_COLUMNS = ("action", "server", "to", "why")
COLUMNS = ("name", "role", "follows", "receive", "apply", "executed", "read_only", "semi_sync", "error")


def _make_row(seen: Members, name: str, source: str) -> dict[str, object]:
    """Returns a server as a row: role, semi-sync, GTIDs, channel; of one that did not answer, its
    error."""
    member = seen[name]
    row: dict[str, object] = {"name": name, "role": "source" if name == source else "replica", "error": member.error}
    if member.state is None:
        return row
    semi, channel = member.state.semi_sync, member.channel
    side = "source" if semi.source_status else "replica" if semi.replica_status else "off"
    places = {(each.host, each.port): each.name for each in seen.values()}
    row |= {"executed": str(member.state.executed), "read_only": member.state.read_only, "semi_sync": side}
    if channel is not None:
        follows = places.get(channel.place, channel.where)
        row |= {"follows": follows, "receive": channel.receive, "apply": channel.apply}
    return row


def _build_table(rows: list[dict[str, object]]) -> Table:
    cells = [["-" if row.get(key) in (None, "") else str(row[key]) for key in COLUMNS] for row in rows]
    return make_table(COLUMNS, cells)


def _format_pairs(answer: Mapping[str, object]) -> str:
    items = [(key.replace("_", " "), value) for key, value in answer.items() if value not in (None, "", [], {})]
    return format_pairs([(name, _format_value(value)) for name, value in items])


def _format_value(value: object) -> str:
    """Returns seconds by their names as `NAME SECONDS s`; any other value as text."""
    if isinstance(value, dict) and all(isinstance(seconds, float) for seconds in value.values()):
        return ", ".join(f"{name} {seconds:.3f} s" for name, seconds in value.items())
    return str(value)
