"""Whole failovers and switchovers in virtual time, with the executor, the watcher, the journal and
the lease as they are: servers die and come back, links are cut, answers are late or never come, and
the program is killed anywhere and begun again. Rules that have to hold:

    no server acknowledges a commit that another one lacks which was opened for writes since
    of two watchers one changes servers at a time
    a run that says that nothing acknowledged is missing is right
    every run ends, or says why it cannot; in the end one server takes writes, and the others follow it
    that server answers commits, also after it was killed and started again; where nobody takes writes, the run says
    which of the reasons of REASONS keeps it from going on
    the same seed has the same run

The failing seed is in the assertion. SIMULATED_SEED=17 runs one of them; soak_failovers.py has the long run.
"""

from __future__ import annotations

import os
import random
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterable

import pytest
from simulated_cluster import CLIENTS, Program, SimulatedCluster, SimulatedStop
from simulated_servers import Server
from simulated_time import Killed, Task

from headrace.errors import CouldNotRun, HeadraceError
from headrace.servers.failover.planning.members import AckProof, FailoverWish, Outcome, Seen
from headrace.servers.failover.watcher import Watcher

SEEDS = int(os.environ.get("SIMULATED_SEEDS", "500"))
ONE = os.environ.get("SIMULATED_SEED")
BLOCKS = 10
FAULTS_S = 12.0  # how long things go wrong
LONGEST_S = 2_000.0  # of a run: a drain may take some hundred seconds here
KINDS = [
    "failover",
    "failover",
    "failover after starts",
    "switchover",
    "switchover without a replica",
    "watch",
    "two watches",
]
# Events that some of the seeds have besides; "" for none.
SELDOM = [
    "semi-sync is switched off",
    "the disk is full",
    "the source goes on alone",
    "binary logs are purged",
    *[""] * 6,
]
SWITCHED_OFF_S = 0.9  # after a watch began, which looks every 0.5 s; the source dies 2 s after that at the earliest
LINES = 60  # of the journal of a change
ANSWERED_S = 5.0  # within which a commit is answered where nothing is slow any more: messages take 1 ms
# Why a change may end without a server that takes writes, when everything is back that a person can bring back.
REASONS = re.compile(
    # accept_loss was not asked for.
    "acknowledged commits may be missing|would lack transactions that another replica received"
    "|was elected, and .* received .* since then"
    # Refusals if the old source cannot be ended from here.
    "|without semi-sync it needs no replica to acknowledge|without replicas it acknowledges alone"
)
Job = Callable[[Program], Outcome]


def build(seed: int, happens: str = "") -> SimulatedCluster:
    chance = random.Random(seed)
    replicas = chance.choice([1, 2, 2, 3])
    timeout_s = chance.choice([0.0, 2.0, 5.0, 1e8, 1e8])
    if happens in ("semi-sync is switched off", "the source goes on alone"):
        timeout_s = 1e8
    return SimulatedCluster(chance, replicas, chance.choice(["mariadb", "mysql"]), timeout_s, chance.random() < 0.6)


def disturb(cluster: SimulatedCluster, until_s: float) -> None:
    """Lets one thing go wrong, and others later."""
    chance, time = cluster.chance, cluster.time
    if time.now_s > until_s:
        return
    time.at(chance.expovariate(1.0), lambda: disturb(cluster, until_s))
    server = chance.choice(list(cluster.servers.values()))
    what = chance.choice(["restart", "power", "cut", "cut", "slow", "stop", "start"])
    cluster.say(f"{what} {server.name}")
    if what in ("restart", "power", "cut"):
        cluster.away.add(server.name)
    match what:
        case "restart" | "power":
            server.stop(power=what == "power")
            time.at(chance.choice([0.2, 1.0, 2.5, 5.0, 15.0]), server.start)
        case "cut":
            far = chance.choice([*cluster.servers, *cluster.machines])
            if far != server.name:
                cluster.link(server.name, far, on=False)
                cluster.away.add(far)
                time.at(chance.choice([0.3, 3.0, 10.0]), lambda: cluster.link(server.name, far, on=True))
        case "slow":
            cluster.slow[server.name] = chance.choice([0.05, 0.5, 3.0])
            time.at(chance.uniform(0.5, 5.0), lambda: cluster.slow.pop(server.name, None))
        case "stop" if server.up:
            server.stop_threads(receive=chance.random() < 0.5, apply=chance.random() < 0.5)
            time.at(chance.uniform(0.5, 5.0), server.start_threads)
        case _:
            if server.up:
                server.start_threads()


def purge(server: Server, until_s: float) -> None:
    """Empties the binary log of a server, now and later, so that it sends none of that."""
    server.purged = set(server.log)
    if server.time.now_s < until_s:
        server.time.at(0.5, lambda: purge(server, until_s))


def heal(cluster: SimulatedCluster, left_out: Iterable[str] = ()) -> None:
    """Everything that a person can bring back is back, but for servers that an outcome has left out: they are to
    follow the new source first."""
    cluster.slow.clear()
    for near, far in [sorted(pair) for pair in cluster.cut]:
        if cluster.source.name not in (near, far):
            cluster.link(near, far, on=True)
    for server in cluster.servers.values():
        if server.name in left_out:
            continue
        if server is not cluster.source or not cluster.struck:
            server.start()
        if server.channel is not None:
            server.start_threads()


def proof_of_watch(program: Program) -> AckProof | None:
    """Semi-sync as it is seen at work before the source dies."""
    for _ in range(3):
        _, proof = program.executor.observer.probe_source("s0")
        if proof is not None:
            return proof
    return None


def single_out(cluster: SimulatedCluster) -> Server:
    """Lets a single replica receive for a moment: what is acknowledged then is nowhere else."""
    chance, source = cluster.chance, cluster.source
    names = [name for name in cluster.servers if name != source.name]
    single = cluster.young or chance.choice(names)
    for name in names:
        if name != single:
            cluster.link(source.name, name, on=False)
            cluster.away.add(name)
            cluster.time.at(chance.uniform(2.0, 10.0), lambda name=name: cluster.link(source.name, name, on=True))
    return cluster.servers[single]


def strike_single(cluster: SimulatedCluster, single: Server) -> None:
    """Lets something happen to the replica that alone has the newest commits."""
    chance = cluster.chance
    cluster.away.add(single.name)
    match "restart" if cluster.young else chance.choice(["hide", "restart", "restart", "nothing"]):
        case "hide":
            for machine in cluster.machines:
                cluster.link(machine, single.name, on=False)
                until_s = chance.uniform(5.0, 30.0)
                cluster.time.at(until_s, lambda machine=machine: cluster.link(machine, single.name, on=True))
        case "restart":
            single.stop(power=chance.random() < 0.3)
            cluster.time.at(chance.choice([0.1, 1.0, 2.5]), single.start)


def strike(cluster: SimulatedCluster) -> float:
    """Makes a failover necessary; returns in how many seconds; a source that is not fenced may come
    back by itself."""
    chance, source = cluster.chance, cluster.source
    if not cluster.young and chance.random() < (0.4 if cluster.can_fence else 0.8):
        # It lives on where clients reach it, cut off from all or with one of its replicas.
        inside = {source.name} | {name for name in list(cluster.servers)[-1:] if chance.random() < 0.4}
        # The earliest while a failover is under way, perhaps one that has to wait for a replica.
        until_s = chance.choice([chance.uniform(0.5, 6.0), chance.uniform(4.0, 60.0)])
        if chance.random() < 0.5:
            slow = list(cluster.servers)[-1]
            cluster.slow[slow] = chance.choice([0.5, 3.0])
            cluster.away.add(slow)
            cluster.time.at(until_s + 5.0, lambda: cluster.slow.pop(slow, None))
        for near in sorted(inside):
            for far in [name for name in (*cluster.machines, *cluster.servers) if name not in inside]:
                cluster.link(near, far, on=False)
                cluster.time.at(until_s, lambda near=near, far=far: cluster.link(near, far, on=True))
        cluster.away |= inside
        cluster.whole_s = cluster.time.now_s + until_s + 10.0
        return 0.0
    if cluster.young or chance.random() < 0.5:
        single, moment_s = single_out(cluster), chance.uniform(0.3, 2.0)
        cluster.time.at(moment_s, lambda: (end(cluster), strike_single(cluster, single)))
        return moment_s
    end(cluster)
    return 0.0


def strike_closed(cluster: SimulatedCluster) -> None:
    """Lets something happen to a replica when the writes of the source have just stopped."""
    chance, time = cluster.chance, cluster.time
    replica = cluster.servers[chance.choice([name for name in cluster.servers if name != cluster.source.name])]
    cluster.away.add(replica.name)
    what = chance.choice(["restart", "cut", "stop"])
    cluster.say(f"{what} {replica.name}, as the writes stop")
    match what:
        case "restart":
            replica.stop()
            time.at(chance.choice([0.2, 15.0]), replica.start)
        case "cut":
            for machine in cluster.machines:
                cluster.link(machine, replica.name, on=False)
                time.at(5.0, lambda machine=machine: cluster.link(machine, replica.name, on=True))
        case "stop":
            replica.stop_threads(receive=False)


def end(cluster: SimulatedCluster) -> None:
    """The source ends, perhaps with its machine."""
    chance, source = cluster.chance, cluster.source
    cluster.struck = True
    source.stop(power=chance.random() < 0.5)
    if not cluster.young and chance.random() < 0.4:
        cluster.time.at(chance.uniform(1.0, 30.0), source.start)


def carry_out(cluster: SimulatedCluster, job: Job, kills: int, full: bool = False) -> object:
    """The result of a command that is given again where its program was killed, and once more when everything that a
    person can bring back is back. `full`: the disk of its journal has room for some lines until then."""
    chance, time = cluster.chance, cluster.time
    result: object = None
    for remaining in range(kills, -2, -1):
        if remaining < 0:
            cluster.closing = lambda: None
            wait_out(cluster)
            heal(cluster)
            wait(cluster, 8.0)
        program = cluster.program("m0")
        if full and remaining >= 0:
            program.room = chance.randrange(1, LINES)  # a run that cannot begin leaves all as it is
        if remaining > 0:
            program.lines = chance.choice([None, chance.randrange(LINES)])
            if program.lines is None:
                time.at(chance.uniform(0.0, 8.0), program.kill)
        result = ended(cluster, program.begin(lambda program=program: job(program)))
        cluster.say(f"{program.process.name} ended: {result!r}")
        # A run that cannot have the lease changes nothing, not even what one that was killed has closed.
        # Nor does another one take writes once a server was elected.
        progress = program.executor.journal.history.progress
        elected = progress is not None and progress.decision is not None
        excused = cluster.struck or elected or cluster.source.name in cluster.away
        if isinstance(result, HeadraceError) and result.value != "the lease" and not excused:
            assert any(not server.closed for server in cluster.servers.values()), "nobody takes writes any more"
        if isinstance(result, Outcome):
            return result
        wait(cluster, chance.choice([0.0, 0.1, 5.0]))
    return result


def wait(cluster: SimulatedCluster, seconds: float) -> None:
    cluster.time.join(Task(cluster.time.world, lambda: None), seconds)


def wait_out(cluster: SimulatedCluster, until_s: float = 0.0) -> None:
    """Waits until nothing goes wrong any more, and the longest cut of `disturb` is over."""
    wait(cluster, max(0.0, max(until_s, FAULTS_S + 10.0) - cluster.time.now_s))


def ended(cluster: SimulatedCluster, task: Task) -> object:
    """The result of a task, or its error. Raises AssertionError for one that does not end."""
    assert cluster.time.join(task, LONGEST_S), "it never ended"
    if task.error is not None and not isinstance(task.error, HeadraceError | Killed):
        raise task.error
    return task.error or task.result


def watched(cluster: SimulatedCluster, program: Program) -> Outcome:
    """The outcome of a watch that is begun again where it ended with an error. Raises HeadraceError for the last of
    them, or where nothing was to be done."""
    stop = SimulatedStop(program.surroundings)
    cluster.time.at(3 * FAULTS_S, lambda: setattr(stop, "requested", True))
    error = HeadraceError("s0", "it was never dead")
    while not stop.is_set():
        try:
            outcomes = Watcher(program.executor, FailoverWish("s0"), say=program.say).watch(stop)
        except HeadraceError as again:
            error = again
            cluster.say(f"{program.process.name}: {error}")
            stop.wait(2.0)
        else:
            if outcomes:
                return outcomes[0]
    raise error


def run(seed: int) -> tuple[SimulatedCluster, str]:
    """One history, and how it ended."""
    # Drawn on its own, so that a further thing that may happen leaves the runs of the other seeds as they are.
    happens = random.Random(f"what happens in {seed}").choice(SELDOM)
    cluster, handler = build(seed, happens), signal.getsignal(signal.SIGINT)
    try:
        kind = cluster.chance.choice(KINDS)
        end = play(cluster, "watch" if happens == "semi-sync is switched off" else kind, happens)
        assert signal.getsignal(signal.SIGINT) is handler, "Ctrl-C is handled as in a clean-up"
        for machine in cluster.machines.values():
            assert machine.busy is None, "its journal is still in use"
        return cluster, end
    except BaseException as error:
        print("\n".join(cluster.trace[-120:]))
        raise AssertionError(f"seed {seed}: {error}") from error
    finally:
        cluster.stopped = True
        cluster.time.end(cluster.processes)


def play(cluster: SimulatedCluster, kind: str, happens: str = "") -> str:
    chance = cluster.chance
    switched_off = happens == "semi-sync is switched off"
    cluster.say(f"{kind}: {cluster.flavor}, {cluster.count} of {len(cluster.servers) - 1}, {cluster.timeout_s:g} s")
    cluster.machine("m0")
    wait(cluster, chance.uniform(0.2, 2.0))
    if kind == "failover after starts":
        start_again(cluster)
    elif kind == "switchover without a replica":
        # Nothing else goes wrong, so that the source is there to take writes again.
        kind = "switchover"
        cluster.closing = lambda: cluster.time.at(chance.uniform(0.0, 0.02), lambda: strike_closed(cluster))
    elif chance.random() < 0.6 and not switched_off:
        disturb(cluster, FAULTS_S)
    if happens == "the source goes on alone":
        cluster.source.settings["waits_alone"] = cluster.source.has["waits_alone"] = False
        cluster.source.variable_rows = None
    if happens == "binary logs are purged" and cluster.flavor == "mysql":
        purge(cluster.servers["s1"], FAULTS_S)
    if switched_off:
        # A watch has seen it at work before, and sees that it is off before the source dies.
        cluster.time.at(SWITCHED_OFF_S, cluster.source.switch_semi_sync_off)
    if "watch" in kind:
        return watch(cluster, 2 if kind == "two watches" else 1)
    proof = ended(cluster, (first := cluster.program("m0")).begin(lambda: proof_of_watch(first)))
    accept_loss = not cluster.young and chance.random() < 0.5
    if kind != "switchover":
        wait(cluster, strike(cluster) + chance.uniform(0.0, 3.0))
    wish = FailoverWish("s0", kind="switchover" if kind == "switchover" else "failover", accept_loss=accept_loss)

    def job(program: Program) -> Outcome:
        return program.executor.run(wish, proof=proof if isinstance(proof, AckProof) else None)

    result = carry_out(cluster, job, chance.choice([0, 0, 1, 1, 2, 3]), happens == "the disk is full")
    return judge(cluster, result, kind)


def start_again(cluster: SimulatedCluster) -> None:
    """Starts a replica for the first time of two: semi-sync is seen at work in between, and it has not applied what it
    acknowledged when the second start deletes that. Nothing else goes wrong, so that the failover is not refused for
    another reason."""
    chance = cluster.chance
    cluster.young = chance.choice([name for name in cluster.servers if name != cluster.source.name])
    cluster.apply_s = max(cluster.apply_s, 0.5)
    cluster.servers[cluster.young].stop()
    cluster.servers[cluster.young].start()
    wait(cluster, chance.uniform(0.2, 1.2))


def watch(cluster: SimulatedCluster, count: int) -> str:
    """One or two watches, on machines of their own."""
    programs = [cluster.program(f"m{number}") for number in range(count)]
    tasks = [program.begin(lambda program=program: watched(cluster, program)) for program in programs]
    cluster.time.at(cluster.chance.uniform(2.0, 8.0), lambda: strike(cluster))
    cluster.time.at(2 * FAULTS_S, lambda: heal(cluster))
    match cluster.chance.choice(["kill", "kill within a change", "", "", ""]):
        case "kill":
            cluster.time.at(cluster.chance.uniform(2.0, 12.0), programs[-1].kill)
        case "kill within a change":
            programs[-1].lines = cluster.chance.randrange(LINES)
    results = [ended(cluster, task) for task in tasks]
    outcomes = [result for result in results if isinstance(result, Outcome)]
    assert len({outcome.elected for outcome in outcomes}) <= 1, f"two were elected: {outcomes}"
    for result in results:
        cluster.say(f"ended: {result}")
    killed = [program.machine for program, result in zip(programs, results, strict=True) if isinstance(result, Killed)]
    errors = [result for result in results if isinstance(result, HeadraceError)]
    # A program without the lease may not know why the other one could not go on.
    result = next(iter((*outcomes, *(error for error in errors if error.value != "the lease"), *errors)), None)
    if not outcomes and (killed or not any(server.up and not server.closed for server in cluster.servers.values())):
        # A person comes, and gives the command once everything is back.
        wait_out(cluster, 2 * FAULTS_S + 8.0)
        program = cluster.program(killed[0].name if killed else "m0")
        result = ended(cluster, program.begin(lambda: program.executor.run(FailoverWish("s0"))))
        cluster.say(f"{program.process.name} ended: {result!r}")
    return judge(cluster, result, "watch")


def judge(cluster: SimulatedCluster, result: object, kind: str) -> str:
    """Returns the end of a run, and asserts the rules that hold for it."""
    if not isinstance(result, Outcome):
        assert isinstance(result, HeadraceError) and result.rule, result
        judge_refusal(cluster, result, kind)
        return "refused"
    return judge_outcome(cluster, result, kind)


def judge_refusal(cluster: SimulatedCluster, error: HeadraceError, kind: str) -> None:
    source = cluster.source
    writable = [server for server in cluster.servers.values() if server.up and not server.closed]
    if kind == "switchover" and source.up and source.channel is None:
        assert writable, f"nobody takes writes after: {error}"
    if writable:
        wait_out(cluster, cluster.whole_s)
        for server in writable:
            check_service(cluster, server)
    else:
        assert REASONS.search(f"{error.value} {error.rule}"), f"nobody takes writes, for no reason: {error}"


def judge_outcome(cluster: SimulatedCluster, result: Outcome, kind: str) -> str:
    new = cluster.servers[result.elected or ""]
    if result.lossless:
        lost = [transaction for _, transaction in cluster.acknowledged if transaction not in new.places]
        assert not lost, f"said to be kept, and lost: {lost}"
    if new.up:
        assert not new.closed and cluster.files[str(CLIENTS)] == new.name, f"{new.name} does not take writes"
    wait_out(cluster, cluster.whole_s)
    heal(cluster, result.left_out)
    wait(cluster, 8.0)
    for server in cluster.servers.values():
        above = server.channel and server.channel.source
        # A replica that an earlier switchover moved, and could not move back, was named then.
        behind = above is new or (above is not None and above.channel is not None and above.channel.source is new)
        # Servers that were away, or have more than the new source, are for a person; so is the old
        # source after a failover.
        away = server is cluster.source if kind != "switchover" else False
        if server.up and server is not new and not away and server.name not in cluster.away:
            assert behind or server.name in result.left_out, f"{server.name} does not follow {new.name}"
    check_service(cluster, new, result.left_out)
    waits = new.has["source"]
    new.stop()
    new.start()
    wait(cluster, 8.0)
    assert not new.closed, f"{new.name} is read-only after a start"
    assert new.has["source"] or not waits, f"{new.name} acknowledges alone after a start"
    check_service(cluster, new, result.left_out)
    return "kept" if result.lossless else "uncertain"


def check_service(cluster: SimulatedCluster, server: Server, left_out: Iterable[str] = ()) -> None:
    """Checks that a server answers a commit, or has fewer replicas than it waits for, since some are left out or were
    away."""
    answers = []
    server.commit(lambda: answers.append(True))
    wait(cluster, ANSWERED_S)
    missing = cluster.away.union(left_out)
    able = sum(each.has["replica"] for each in cluster.servers.values() if each is not server)
    if server is cluster.source and able < server.has["count"]:
        return  # as it was from the beginning
    acking = [
        each.name
        for each in cluster.followers(server)
        if (channel := each.channel) and channel.connected and channel.acks and cluster.linked(each.name, server.name)
    ]
    assert answers or (missing and len(acking) < server.has["count"]), (
        f"{server.name} takes writes and answers no commit"
    )


@pytest.mark.parametrize("block", range(BLOCKS) if ONE is None else [0])
def test_whatever_happens(block):
    ends = Counter[str]()
    for seed in range(block, SEEDS, BLOCKS) if ONE is None else [int(ONE)]:
        _, end = run(seed)
        ends[end] += 1
    if ONE is None:
        # A test that refuses everything, or promises nothing, would prove nothing.
        assert ends["kept"] > SEEDS / BLOCKS / 10 and ends["refused"], ends
    print(dict(ends))


@pytest.mark.parametrize("seed", [16391, 16937, 25577, 62843])
def test_seeds_that_the_long_run_has_failed_with(seed):
    """A promotion by a program that was killed on another machine (the first three), and a replica that acknowledged
    what the elected one does not have, while another one did not answer."""
    run(seed)


def quiet_cluster(flavor: str) -> SimulatedCluster:
    """A source and three replicas that acknowledge and keep up, in a world where nothing goes wrong by chance."""
    cluster = SimulatedCluster(random.Random(flavor), 3, flavor, 1e8, can_fence=True)
    cluster.apply_s, cluster.fence_fails = 0.0005, 0.0
    for replica in list(cluster.servers.values())[1:]:
        replica.settings["replica"] = True
        replica.stop()
        replica.start()
        replica.started_s = -1_000.0
    wait(cluster, 1.0)
    return cluster


def play_killed(
    cluster: SimulatedCluster, wish: FailoverWish, lines: int, hidden: str = "", machine: str = "m0"
) -> bool:
    """Carries a change out by a program that is killed before that line of its journal, and by another one; `hidden`: a
    server that this one cannot reach, so that a third one follows; `machine`: where the last one runs, without the
    journal of the first unless it is the same. Returns whether the first had more lines."""

    first = cluster.program("m0")
    proof = ended(cluster, first.begin(lambda: proof_of_watch(first)))
    assert isinstance(proof, AckProof)

    def job(program: Program, proof: AckProof = proof) -> Callable[[], Outcome]:
        return lambda: program.executor.run(wish, proof=proof)

    if wish.kind == "failover":
        end(cluster)
    first.lines = lines
    result = ended(cluster, first.begin(job(first)))
    killed = isinstance(result, Killed)
    if killed and hidden:
        cluster.link("m0", hidden, on=False)
        second = cluster.program("m0")
        result = ended(cluster, second.begin(job(second)))
        cluster.link("m0", hidden, on=True)
        wait(cluster, 8.0)
    if killed and not isinstance(result, Outcome):
        following = cluster.program(machine)
        result = ended(cluster, following.begin(job(following)))
    assert isinstance(result, Outcome) and (result.lossless or machine != "m0"), f"{lines}: {result}"
    judge_outcome(cluster, result, wish.kind)
    cluster.stopped = True
    cluster.time.end(cluster.processes)
    return killed


@pytest.mark.parametrize(
    "wish", [FailoverWish("s0"), FailoverWish("s0", kind="switchover")], ids=lambda each: each.kind
)
@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_killed_before_each_line_of_its_journal(flavor, wish):
    """A run after a killed one ends as if nothing had happened, also in the settings with which the
    servers start later."""
    count = 0
    while play_killed(quiet_cluster(flavor), wish, count):
        count += 1
    assert count > 10  # a change begins, looks, and carries out five steps of two lines each


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_another_machine_follows_a_killed_one(flavor):
    """A run without the journal of the killed one tells clients too, and stores the new source's role for later
    starts. It cannot know that nothing is lost where the killed one had stopped the replicas: so that is accepted."""
    count = 0
    while play_killed(quiet_cluster(flavor), FailoverWish("s0", accept_loss=True), count, machine="m1"):
        count += 1
    assert count > 10


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_the_chosen_replica_is_hidden_after_a_kill(flavor):
    """The role of a source that a killed run gave to a replica cannot be taken back there. It keeps the replica from
    applying until the next change, which sets it anew, for later starts too."""
    count = 0
    while play_killed(quiet_cluster(flavor), FailoverWish("s0", kind="switchover", target="s1"), count, hidden="s1"):
        count += 1
    assert count > 10


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_one_server_takes_writes_whichever_line_of_the_journal_finds_no_room(flavor):
    """Also where the election cannot be written: nobody was opened, so the source is open again."""
    lines, wish = 0, FailoverWish("s0", kind="switchover")
    while True:
        cluster = quiet_cluster(flavor)
        program = cluster.program("m0")
        program.room = lines
        result = ended(cluster, program.begin(lambda program=program: program.executor.run(wish)))
        writable = [server.name for server in cluster.servers.values() if not server.closed]
        assert len(writable) == 1, f"{lines}: {writable} take writes after {result!r}"
        if isinstance(result, Outcome):
            break
        assert isinstance(result, CouldNotRun) and "No space left" in result.rule
        program = cluster.program("m0")
        result = ended(cluster, program.begin(lambda program=program: program.executor.run(wish)))
        assert isinstance(result, Outcome) and result.lossless, f"{lines}: {result}"
        judge_outcome(cluster, result, wish.kind)
        cluster.stopped = True
        cluster.time.end(cluster.processes)
        lines += 1
    assert lines > 10


@pytest.mark.parametrize("semi_sync", [True, False])
@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_a_cut_off_failover_is_ended_where_its_source_is_back(flavor, semi_sync):
    """A run that is refused then lets the replicas receive, which the one before had stopped: with semi-sync no commit
    of the source would be answered, and nobody would do it later."""
    lines = stopped = 0
    while True:
        cluster = quiet_cluster(flavor)
        cluster.can_fence = False
        if not semi_sync:
            cluster.source.settings["source"] = False
            cluster.source.switch_semi_sync_off()
        wish = FailoverWish("s0", by_hand=not semi_sync, accept_loss=not semi_sync)
        first = cluster.program("m0")
        proof = ended(cluster, first.begin(lambda first=first: proof_of_watch(first)))
        assert isinstance(proof, AckProof) == semi_sync
        cluster.source.stop()
        first.lines = lines

        def run_first(first: Program = first, proof: object = proof, wish: FailoverWish = wish) -> Outcome:
            return first.executor.run(wish, proof=proof if isinstance(proof, AckProof) else None)

        result = ended(cluster, first.begin(run_first))
        progress = first.executor.journal.read().progress
        assert isinstance(result, Killed)
        if progress is not None and progress.decision is not None:
            break
        stopped += progress is not None and bool(progress.stopped)
        cluster.source.start()
        wait(cluster, 2.0)
        second = cluster.program("m0")

        def refused(second: Program = second, wish: FailoverWish = wish) -> None:
            second.executor.check_foreseen(wish, second.executor.preview_run(wish))

        error = ended(cluster, second.begin(refused))
        assert isinstance(error, CouldNotRun), error
        assert second.executor.journal.read_unfinished() is None
        wait(cluster, 8.0)
        assert all(replica.channel and replica.channel.connected for replica in cluster.followers(cluster.source))
        check_service(cluster, cluster.source)
        cluster.stopped = True
        cluster.time.end(cluster.processes)
        lines += 1
    assert stopped


def switched(cluster: SimulatedCluster, source: str, target: str, lines: int | None = None) -> object:
    """The result of a switchover by a program of its own; `lines`: it is killed before that line of its journal."""
    program = cluster.program("m0")
    program.lines = lines
    wish = FailoverWish(source, kind="switchover", target=target)
    return ended(cluster, program.begin(lambda: program.executor.run(wish)))


@pytest.mark.parametrize(("reasons", "last"), [(["disk full", "read-only"], "read-only"), (["disk full"], "")])
def test_the_address_file_is_written_again_at_the_end(reasons, last, monkeypatch):
    """The outcome has the reason of the last attempt, which still holds, and none where that one succeeded."""
    cluster = quiet_cluster("mysql")
    program, pending = cluster.program("m0"), list(reasons)
    write = program.surroundings.write

    def fail_first(path, content):
        if pending:
            raise CouldNotRun(str(path), pending.pop(0), "", "")
        write(path, content)

    monkeypatch.setattr(program.surroundings, "write", fail_first)
    wish = FailoverWish("s0", kind="switchover", target="s1")
    result = ended(cluster, program.begin(lambda: program.executor.run(wish)))
    assert isinstance(result, Outcome) and (result.elected, result.clients) == ("s1", last)
    assert (cluster.files[str(CLIENTS)] == "s1") == (not last)
    cluster.stopped = True
    cluster.time.end(cluster.processes)


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_another_change_follows_a_killed_one(flavor):
    """Settings for later starts that a killed switchover had postponed are not lost where the next change is another
    one, from the new source."""
    count, returned = 0, 0
    while True:
        cluster = quiet_cluster(flavor)
        result = switched(cluster, "s0", "s1", lines=count)
        if not isinstance(result, Killed):
            break
        count += 1
        if cluster.servers["s1"].closed:
            continue
        result = switched(cluster, "s1", "s2")
        assert isinstance(result, Outcome) and result.lossless, f"{count}: {result}"
        judge_outcome(cluster, result, "switchover")
        for name in cluster.servers.keys() - result.left_out.keys():
            settings, new = cluster.servers[name].settings, name == "s2"
            role = (settings["source"], settings["replica"], settings["read_only"])
            assert role == (new, not new, not new), f"{count}: {name} starts as {role}"
        returned += "s0" not in result.left_out
        cluster.time.end(cluster.processes)
    assert returned, "the source of before follows in none of them"


def test_whether_the_dead_source_flushed_its_log_is_known_from_before():
    """A rescue reads that log, and nobody can ask a dead server how often it was flushed."""
    cluster = quiet_cluster("mysql")

    def look(program: Program) -> Seen:
        object.__setattr__(program.executor.hosts["s0"], "has_volume", True)
        seen = ended(cluster, program.begin(program.executor.observer.look))
        assert isinstance(seen, dict)
        return seen["s0"]

    program = cluster.program("m0")
    assert look(program).log_flushed
    cluster.source.has["sync_binlog"] = 0
    cluster.source.variable_rows = None
    assert not look(program).log_flushed
    cluster.source.has["sync_binlog"] = 1
    cluster.source.variable_rows = None
    look(program)
    cluster.source.stop()
    dead = look(program)
    assert dead.state is None and dead.log_flushed
    assert not look(cluster.program("m0")).log_flushed, "this one saw nothing before"
    cluster.stopped = True
    cluster.time.end(cluster.processes)


def test_the_same_seed_has_the_same_run():
    for seed in range(5):
        first, second = run(seed), run(seed)
        assert first[0].trace == second[0].trace and first[1] == second[1], f"seed {seed}"
