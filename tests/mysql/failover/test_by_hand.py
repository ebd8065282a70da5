"""Troubles of a person who fails over, switches over or rejoins by hand: an interrupt, the pause
after a failover by the watcher, a source whose disk is full."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
from dataclasses import replace

import pytest
from lab_folders import Command
from lab_servers import sql
from test_faults import fill, kill
from under_load import SCHEMA, Trio
from waiting import patience, wait_until

from headrace import servers
from headrace.base.storage import Storage
from headrace.errors import CouldNotRun, InputError
from headrace.lab.waiting import wait_for_modification
from headrace.servers.failover.cluster import find_source
from headrace.servers.failover.interruption import describe_rejoin
from headrace.servers.failover.planning.dry_run import build_dry_run
from headrace.servers.failover.planning.members import FailoverWish
from headrace.servers.failover.planning.progress import Progress
from headrace.servers.failover.rejoin import rejoin_plan


def others(trio: Trio) -> list[str]:
    return [name for name in trio.names if name != trio.source]


@pytest.mark.parametrize("after", ["stop the writes", "take writes"])
def test_an_interrupted_switchover_says_who_takes_writes_and_is_finished_by_itself(trio, after):
    """Ctrl-C before anybody was elected: the source takes writes again. After that: the same command
    finishes it, and `status` finds its way without --from."""
    source, [target, other] = trio.source, others(trio)
    wish = FailoverWish(source, kind="switchover", target=target)

    def interrupt(text: str) -> None:
        trio.say(text)
        if armed and text.endswith(f": {'apply what it received' if after == 'stop the writes' else 'stop following'}"):
            raise KeyboardInterrupt

    armed = True
    with contextlib.closing(trio.cluster().make_executor(trio.clients, interrupt)) as executor:
        steps = executor.preview_run(wish).plan.steps
        with pytest.raises(KeyboardInterrupt):
            executor.run(wish)
        words, seen, unfinished = (
            executor.describe_interruption(wish),
            executor.observer.look(),
            executor.journal.read_unfinished(),
        )
        if after == "stop the writes":
            assert words == f"{source} takes writes. Nothing was changed." and unfinished is None
            assert find_source(seen, None, unfinished) == source
            assert sql(trio.server(source), "SELECT @@global.read_only") == ((0,),)
            return
        assert words.startswith(f"{target} takes writes; {source} "), words
        assert words.endswith("not follow it yet. Give the same command again to finish."), words
        assert unfinished is not None and find_source(seen, None, unfinished) == target
        assert trio.named() == target
        armed = False
        outcome = executor.run(wish)
    assert outcome.elected == target and not outcome.left_out
    assert [step.action for step in steps].count("repoint") + [step.action for step in steps].count(
        "repoint-early"
    ) == 2
    trio.source = target
    assert trio.equal()
    seen = look(trio)
    assert find_source(seen) == target and {state.channel is not None for state in (seen[source], seen[other])} == {
        True
    }


def look(trio: Trio) -> dict:
    with contextlib.closing(trio.cluster().make_observer()) as observer:
        return observer.look()


def test_a_rejoin_of_the_wrong_server_is_refused(trio):
    replica = others(trio)[0]
    with pytest.raises(InputError, match=r"is the source \(.*\): there is nothing to rejoin"):
        rejoin_plan(trio.cluster(), trio.source)
    with pytest.raises(InputError, match="is read-only, so it is not the source"):
        rejoin_plan(trio.cluster(), replica, others(trio)[1])
    assert rejoin_plan(trio.cluster(), replica) == (trio.source, [], [f"{replica} follows {trio.source} already"])
    assert trio.rejoin(replica)["state"] == "rejoined" and trio.equal()


@pytest.mark.parametrize("at", ["start", "rewind", "seed"])
def test_an_interrupted_rejoin_says_what_finishes_it(trio, at):
    """Ctrl-C as a real SIGINT: while the old source starts, the same command finishes; once a part of
    it is reverted, or it is deleted to be seeded anew, another one does, which is said."""
    if at == "rewind" and trio.flavor != "mariadb":
        pytest.skip("MariaDB's binary log alone can be read backwards")
    old = trio.source
    with trio.watched() as watch:
        kill(trio)
        outcome = watch.outcome()
    assert outcome.elected, outcome
    trio.source = outcome.elected
    trio.forget_failover()
    if at != "start":
        alone = servers.bring_up(trio.lab, name=old)
        kind = "master" if trio.flavor == "mariadb" else "source"
        # So many rows take longer to revert than a signal to arrive.
        rows = (
            f"SELECT 1000, seq, 'alone' FROM {SCHEMA}.seq_1_to_200000"
            if at == "rewind"
            else "VALUES (1000, 1, 'alone')"
        )
        row = f"INSERT INTO {SCHEMA}.entries {rows}"
        sql(alone, "SET GLOBAL read_only = 0", f"SET GLOBAL rpl_semi_sync_{kind}_enabled = 0", row)
    headrace = Command(trio.lab.place.data_dir)
    words = ["failover", "rejoin", old, "--yes", "--journal", str(trio.folder / "journal"), "--diverged"]
    running = headrace.begun(*words, "rewind" if at == "rewind" else "seed")
    assert running.stderr is not None
    if at == "start":
        assert any(f"starting {old} read-only" in line for line in running.stderr)
    elif at == "rewind":
        assert any(f"rewinding {old} to " in line for line in running.stderr)
    else:
        # While it is deleted no signal disturbs that; its next volume is there when it is made again.
        before = {volume["id"] for volume in trio.lab.volumes()}
        wait_until(
            lambda: {volume["id"] for volume in trio.lab.volumes()} - before, "its new volume", 120, pause_s=0.01
        )
    running.send_signal(signal.SIGINT)
    _, output = running.communicate(timeout=patience(120))
    assert running.returncode == 130 and "Traceback" not in output, output
    assert f"Interrupted. {trio.source} takes writes; {old} " in output, output
    if at == "start":
        assert f"{old} does not follow {trio.source} yet. Give the same command again to finish." in output, output
        headrace(*words, "seed")
    elif at == "rewind":
        assert f"{old} may be rewound in part, and cannot be rewound twice." in output, output
        headrace(*words, "seed")
    else:
        _, _, line = output.partition(f"{old} is deleted and not made again yet. This finishes it: ")
        assert line, output
        headrace(*shlex.split(line.splitlines()[0])[1:])
    assert trio.equal()
    assert describe_rejoin(look(trio), old, trio.source).endswith(f"{old} follows {trio.source}.")


def test_a_full_source_is_emptied_and_rejoins_and_the_next_death_is_left_to_a_person(trio):
    """The whole way of finding 12 and 9: a disk that is full, a failover by the watcher, its files
    deleted, the old source back; then a second death within the hour, whose proof a run by hand gets.
    A volume that is made larger does as well as one that is emptied."""
    trio.load.start()
    try:
        with trio.watched() as watch:
            fill(trio)
            outcome = watch.outcome()
    finally:
        trio.load.stop()
    assert outcome.lossless and outcome.elected and outcome.outage_s is not None, outcome
    full, trio.source = trio.source, outcome.elected
    emptied(trio, full)
    assert trio.equal() and not trio.load.missing(trio.server(trio.source))

    died = trio.source
    with trio.watched() as watch:
        kill(trio)
        with pytest.raises(CouldNotRun, match="failed over by itself") as refused:
            watch.outcome()
    assert f"headrace failover run --from {died}" in refused.value.hint
    messages: list[str] = []
    with contextlib.closing(trio.cluster().make_executor(trio.clients, messages.append)) as executor:
        dry_run = executor.preview_run(FailoverWish(died))
        assert not dry_run.plan.refusal and dry_run.plan.lossless, dry_run.plan
        assert f"{died} is down" in dry_run.describe_end_state()
        outcome = executor.run(FailoverWish(died))
    assert outcome.lossless and outcome.elected, (outcome, messages)
    assert any("a watch saw semi-sync at work" in text for text in messages), messages
    trio.source = outcome.elected
    enlarged(trio, died)
    trio.forget_failover()
    assert trio.equal()


def emptied(trio: Trio, name: str) -> None:
    """A full server that is down: named, mounted, emptied, and a replica again."""
    with pytest.raises(CouldNotRun, match="the server ended while it started") as refused:
        trio.rejoin(name)
    assert f"headrace mysql down {name} --mount" in refused.value.hint, refused.value
    problems = servers.with_room(trio.server(name)).problems
    assert any(
        f"volume {name}-data is full" in text and f"headrace mysql down {name} --mount" in text for text in problems
    ), problems
    [volume] = servers.mount(trio.server(name))
    assert volume.free_bytes < 16 << 20 and (volume.place / "filler").exists()
    for filler in ("filler", "filler2"):
        (volume.place / filler).unlink(missing_ok=True)
    servers.stop(trio.server(name))
    assert servers.with_room(trio.server(name)).problems == ()
    above, steps, end = rejoin_plan(trio.cluster(), name)
    assert (
        above == trio.source and [step.action for step in steps][0] == "start" and end[0].startswith(f"{name} follows")
    )
    assert "does not follow" in describe_rejoin(look(trio), name, trio.source)
    answer = trio.rejoin(name, "rewind" if trio.flavor == "mariadb" else "seed")
    assert answer["state"] in ("rejoined", "rewound", "seeded"), answer
    assert describe_rejoin(look(trio), name, trio.source).endswith(f"{name} follows {trio.source}.")


def enlarged(trio: Trio, name: str) -> None:
    """A full server that is down: its volume is made larger, and it is a replica again."""
    server = trio.server(name)
    wait_until(lambda: servers.find(trio.lab, name).pid is None, "the end of the fenced server")
    [volume] = servers.mount(server)
    with open(volume.place / "filler", "wb") as file:
        room = os.statvfs(volume.place)
        os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize - (64 << 10))
    servers.stop(server)
    with pytest.raises(CouldNotRun, match="the server ended while it started") as refused:
        trio.rejoin(name)
    assert "headrace volume modify" in refused.value.hint, refused.value
    assert server.volumes.data is not None
    changed = trio.lab.modify(server.volumes.data, size_gib=Storage.parse(server.storage).size_gib + 1)
    wait_for_modification(trio.lab, server.volumes.data, changed["id"])
    answer = trio.rejoin(name, "rewind" if trio.flavor == "mariadb" else "seed")
    assert answer["state"] in ("rejoined", "rewound", "seeded"), answer
    (volume.place / "filler").unlink()


def test_a_dry_run_of_a_source_that_is_alive_says_what_the_run_says(trio):
    with contextlib.closing(trio.cluster().make_executor(trio.clients, trio.say)) as executor:
        preview = executor.preview_run(FailoverWish(trio.source, rescue=True))
        assert (
            "alive and takes writes: there is nothing to fail over" in preview.plan.refusal and not preview.plan.steps
        )
        seen = dict(executor.observer.look())
    # A source that looks dead goes through every step to the end.
    dead = replace(seen[trio.source], state=None, error="gone", volume=True)
    progress = Progress(FailoverWish(trio.source, rescue=True))
    actions = [step.action for step in build_dry_run({**seen, trio.source: dead}, progress, 1.0).plan.steps]
    assert actions[0] == "fence" and actions.index("rescue") < actions.index("writable") < actions.index("repoint")
