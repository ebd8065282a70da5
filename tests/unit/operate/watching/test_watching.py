"""Watching without a terminal: ticks become moments, moments lines, keys move in time."""

from __future__ import annotations

import json
import math
import random

import pytest
from rich.cells import cell_len

from headrace.base import caps
from headrace.base.credits import CreditsLeft
from headrace.observe.evidence.limits import get_holding_limits
from headrace.observe.evidence.model import SeenServer, SeenVolume, SourceFacts, Tick
from headrace.operate.watching.following import History, TickFollower
from headrace.operate.watching.judging import Judge
from headrace.operate.watching.loop import Feed, Watching
from headrace.operate.watching.moment import (
    InstanceNow,
    IoNow,
    LiveVerdict,
    Moment,
    ReplicaNow,
    ServerNow,
    VolumeNow,
)
from headrace.operate.watching.screen import ScreenState, as_text, build_screen, build_whole

NAMES = ("db", "log", "архив", "日本語の名前", "x" * 60, "tab\there\x1b[31m", "")


def some(draw: random.Random, value: float) -> float | None:
    return draw.choice([None, 0.0, value, value * 1e6])


def random_moment(draw: random.Random, t_unix: float = 1_000_000.0) -> Moment:
    """Anything a target may say, missing and absurd figures too."""
    volumes = []
    for number in range(draw.randrange(0, 12)):
        choice = draw.choice([None, CreditsLeft(draw.choice([0.0, 59.0, 1e9, math.inf]), None, None, 1.0, 1.0)])
        rates = [some(draw, draw.random() * 100) for _ in range(7)]
        volumes.append(
            VolumeNow(
                f"vol-{number}",
                draw.choice(NAMES),
                draw.choice([None, "gp2:100", "raid10:4xgp3:16384:16000:1000"]),
                exceeded={limit: draw.random() for limit in caps.COUNTED if draw.random() < 0.5},
                used={"volume-iops": draw.random() * 2} if draw.random() < 0.5 else {},
                balance=draw.choice([None, 0.0, 0.5, 1.0]),
                time_to_empty=choice,
                gone=draw.choice([None, None, None, "is detached"]),
                reads=IoNow(*rates[:4]),
                writes=IoNow(*rates[4:6]),
                queue=rates[6],
            )
        )
    server = draw.choice(
        [
            None,
            ServerNow("mysql://x@y", up=False),
            ServerNow("mysql://x@y", "mysql 9.7", tps=some(draw, 5.0), waits={"redo log": draw.random()}, io_wait=0.4),
        ]
    )
    return Moment(
        draw.choice(["lab:db", "mysql://" + "h" * 90]),
        t_unix,
        1.0,
        tuple(
            LiveVerdict(draw.choice(["fine", "binds", "cannot tell"]), None, "db", draw.choice(["short", "long " * 40]))
            for _ in range(draw.randint(1, 3))
        ),
        tuple(volumes),
        draw.choice([None, InstanceNow("m5.large", balances={"ios": 0.4})]),
        server,
        draw.choice([(), (ReplicaNow("", 12.0, True, True), ReplicaNow("二", None, False, False, "stopped"))]),
        tuple("note " * draw.randrange(1, 40) for _ in range(draw.randrange(3))),
    )


def test_random_moments_fit_every_terminal():
    draw = random.Random(3)
    for _ in range(150):
        width, height = draw.randrange(80, 200), draw.randrange(24, 60)
        state = ScreenState(before=draw.choice([None, random_moment(draw)]), ascii=draw.random() < 0.5)
        moment = random_moment(draw)
        result = build_screen(moment, width, height, state)
        assert len(result) == height
        assert all(cell_len(line.plain) <= width and line.plain.isprintable() for line in result)
        # Strict JSON, whatever is infinite or missing.
        json.dumps(moment.to_document(), allow_nan=False)


@pytest.mark.parametrize(("width", "height"), [(79, 24), (80, 23), (20, 5), (1, 1)])
def test_a_small_terminal_is_told_so(width, height):
    result = build_screen(random_moment(random.Random(1)), width, height)
    assert len(result) == 1 and cell_len(result[0].plain) <= width


def test_eight_volumes_and_a_server_fit_80_by_24():
    volumes = tuple(
        VolumeNow(f"v{n}", f"v{n}", "gp3:10", reads=IoNow(float(n)), exceeded=dict.fromkeys(caps.COUNTED, 0.0))
        for n in range(8)
    )
    server = ServerNow("m", "mariadb 10.11.19", tps=321.0, checkpoint_age=0.2, dirty=0.1, io_wait=0.5)
    text = as_text(
        build_screen(
            Moment("t", 0, 1, (LiveVerdict("fine", None, "", "no limit binds"),), volumes, server=server), 80, 24
        )
    )
    assert all(f"\nv{n} " in text for n in range(8)) and text.count("gp3:10") == 8
    assert "tps 321" in text and "checkpoint age" in text and "q quit" in text


def test_once_shows_everything_however_much_it_is():
    volumes = tuple(VolumeNow(f"v{n}", f"v{n}") for n in range(40))
    text = as_text(build_whole(Moment("t", 0, 1, (LiveVerdict("fine", None, "", "x"),), volumes)))
    assert all(f"\nv{n} " in text for n in range(40)) and "q quit" not in text


# --- time ---------------------------------------------------------------------------------------------------------


def test_history_keeps_an_hour_and_gives_back_what_it_got():
    history, draw, moments = History(), random.Random(5), {}
    assert history.find_moment(0.0) is None
    for second in range(4_000):
        moments[second] = (
            random_moment(draw, float(second))
            if second % 400 == 0
            else Moment("t", float(second), 1.0, (Judge.UNKNOWN,))
        )
        history.add(moments[second])
    assert history.reaches_s == 3_600
    assert (
        history.find_moment(800.2) == moments[800]
        and history.find_moment(-5.0) == moments[399]
        and history.find_moment(1e9) == moments[3_999]
    )
    history.add(Moment("t", 100.0, 1.0, (Judge.UNKNOWN,)))
    assert len(history) == 1, "the clock was set back"


def test_keys_go_back_freeze_and_subtract(tmp_path):
    watching = Watching(tmp_path)
    assert watching.press("d") and "Waiting" in as_text(watching.build_lines(80, 24))
    for second in range(1_000):
        volume = VolumeNow("db", "db", reads=IoNow(float(second)))
        watching.add(Moment("t", float(second), 1.0, (Judge.UNKNOWN,), (volume,)))

    def iops() -> str:
        row = next(line for line in as_text(watching.build_lines(100, 30)).splitlines() if line.startswith("db"))
        return row.split()[1]

    assert iops() == "999"
    watching.press("left")
    assert iops() == "989" and "10 s back" in as_text(watching.build_lines(100, 30))
    watching.press("up")
    assert iops() == "689"
    for _ in range(10):
        watching.press("up")
    assert iops() == "0", "not before the first moment"
    for _ in range(4):
        watching.press("down")
    assert iops() == "999"
    watching.press(" ")
    watching.add(Moment("t", 1_000.0, 1.0, (Judge.UNKNOWN,), (VolumeNow("db", "db", reads=IoNow(7.0)),)))
    assert iops() == "999" and "frozen" in as_text(watching.build_lines(100, 30))
    watching.press(" ")
    assert iops() == "7"
    watching.press("d")
    assert iops() == "+7", "less the oldest, which had 0"
    assert "nothing is older" in as_text(watching.build_lines(100, 30))
    watching.press("d")
    assert iops() == "7"
    watching.press("j")
    (written,) = tmp_path.glob("headrace-watch-*.json")
    assert json.loads(written.read_text())["volumes"][0]["read_iops"] == 7.0
    assert not watching.press("q")


def test_a_feed_tells_what_went_wrong_and_where_it_ends():
    def moments():
        yield Moment("t", 1.0, 1.0, (Judge.UNKNOWN,))
        raise ValueError("lost")

    feed = Feed(moments())
    feed._thread.join(10)
    with pytest.raises(ValueError, match="lost"):
        feed.take_moments()
    feed = Feed(iter([Moment("t", 1.0, 1.0, (Judge.UNKNOWN,))]))
    feed._thread.join(10)
    result, ended = feed.take_moments()
    assert len(result) == 1 and ended


# --- ticks --------------------------------------------------------------------------------------------------------


def facts(storage: str = "gp2:100", instance: str | None = None, server: bool = False) -> SourceFacts:
    volume = SeenVolume("db", storage, "/dev/loop1", get_holding_limits(storage, instance), id="vol-1")
    return SourceFacts(
        "lab:db", "live", 1.0, "UTC", (volume,), SeenServer("mysql://x@y", "9.7.0-log", "mysql") if server else None
    )


@pytest.mark.parametrize("storage", ["gp2:100", "st1:500", "sc1:1000", "2xgp2:100"])
def test_time_to_empty_of_ticks_is_the_cores(storage):
    reference = facts(storage)
    limits = reference.volumes[0].limits
    assert limits is not None and limits.credits
    refill = limits.iops if limits.credit_unit == "ios" else limits.bytes_s
    follower, level = TickFollower(), 0.7 * limits.credits
    moment: Moment | None = None
    for second in range(30):
        moment = follower.see(
            reference, Tick(float(second), 1.0, {"db": {"balance_percent": 100 * level / limits.credits}})
        )
        level -= 1.5 * refill
    assert moment is not None
    rest = moment.volumes[0].time_to_empty
    assert rest.seconds == pytest.approx((level + 1.5 * refill) / (1.5 * refill), rel=1e-6)
    assert moment.empty_first[0] == "db" and moment.volumes[0].id == "vol-1"


def test_time_to_empty_of_an_instance():
    reference, follower = facts("gp3:100", "m5.large"), TickFollower()
    moment: Moment | None = None
    for second in range(10):
        row = {"instance_io_balance_percent": 80.0 - second, "instance_byte_balance_percent": 100.0}
        moment = follower.see(reference, Tick(float(second), 1.0, {"db": row}))
    assert moment is not None
    # 1 % a second: 71 s are left of 71 %.
    assert moment.instance.time_to_empty["ios"].seconds == pytest.approx(71.0)
    assert math.isinf(moment.instance.time_to_empty["bytes"].seconds) and moment.volumes[0].time_to_empty is None


def test_a_volume_that_is_silent_is_gone_and_begins_anew():
    reference, follower = facts(), TickFollower()
    moment: Moment | None = None
    for second in range(10):
        moment = follower.see(reference, Tick(float(second), 1.0, {"db": {"balance_percent": 90.0 - second}}))
    assert moment is not None
    assert follower.see(reference, Tick(11.0, 1.0)).volumes[0] == moment.volumes[0], "a late row is not a loss"
    moment = follower.see(reference, Tick(30.0, 1.0))
    assert moment.volumes[0].gone == "no figures for 21 s" and moment.volumes[0].time_to_empty is None
    moment = follower.see(reference, Tick(31.0, 1.0, {"db": {"balance_percent": 10.0}}))
    assert moment.volumes[0].gone is None and moment.volumes[0].time_to_empty is None, "one reading has no slope"


def test_a_server_that_is_silent_does_not_answer_and_its_counters_never_go_back():
    reference, follower = facts(server=True), TickFollower()
    moment = follower.see(reference, Tick(0.0, 1.0, {"db": {}}))
    assert moment.server is None, "the first second begins the counters"
    row = {"tps": 10.0, "threads_running": 4.0, "data_waiters": 1.0, "log_waiters": 1.0, "lock_waiters": 3.0}
    moment = follower.see(reference, Tick(1.0, 1.0, {"db": {}}, row))
    assert moment.server.io_wait == pytest.approx(0.5) and moment.server.waits["row locks"] == pytest.approx(0.75)
    assert moment.server.version == "mysql 9.7.0"
    assert follower.see(reference, Tick(2.0, 1.0, {"db": {}})).server.up, "the second in which its replica was asked"
    moment = follower.see(reference, Tick(9.0, 1.0, {"db": {}}))
    assert not moment.server.up and "does not answer" in as_text(build_screen(moment, 80, 24))
    moment = follower.see(reference, Tick(10.0, 1.0, {"db": {}}, row))
    assert moment.server.totals["headrace_transactions_total"] == pytest.approx(20.0)
    moment = follower.see(reference, Tick(10.5, 1.0, {"db": {}}, {**row, "reading_s": 2.5}))
    assert moment.server.totals["headrace_transactions_total"] == pytest.approx(45.0), "readings come late"
    idle = follower.see(reference, Tick(11.0, 1.0, {"db": {}}, {"tps": 0.0, "threads_running": 0.0}))
    assert idle.server.io_wait == 0.0


def test_waits_that_are_not_timed_follow_from_the_disks():
    reference, follower = facts(server=True), TickFollower()
    server = {"threads_running": 8.0, "data_reads_per_s": 1_000.0, "log_fsyncs_per_s": 100.0}
    # 1,000 reads of 2 ms and 100 flushes of 4 ms: 2.4 clients of 8 wait.
    moment = follower.see(reference, Tick(1.0, 1.0, {"db": {"read_ms": 2.0, "write_ms": 4.0}}, server))
    assert moment.server.io_wait == pytest.approx(0.3)
    moment = follower.see(reference, Tick(2.0, 1.0, {"db": {}}, {"threads_running": 8.0}))
    assert moment.server.io_wait is None


# --- verdicts -----------------------------------------------------------------------------------------------------


def judged(seconds: int, share: float, io_wait: float | None, rest: CreditsLeft | None = None) -> LiveVerdict:
    judge, server = Judge(), None if io_wait is None else ServerNow("m", io_wait=io_wait, running=4.0)
    results: list[tuple[LiveVerdict, ...]] = []
    for second in range(seconds):
        volume = VolumeNow("db", "db", exceeded={"volume-iops": share, "instance-iops": share / 2}, time_to_empty=rest)
        results.append(judge.see(Moment("t", float(second), 1.0, (Judge.UNKNOWN,), (volume,), server=server)))
    return results[-1][0]


@pytest.mark.parametrize(
    ("share", "io_wait", "rest", "word", "limit"),
    [
        (0.06, 0.5, None, "binds", "volume-iops"),
        (0.04, 0.5, None, "fine", None),
        (0.9, 0.05, None, "touched", "volume-iops"),
        (0.9, None, None, "binds", "volume-iops"),
        (0.9, 0.5, CreditsLeft(0.0, None, None, 1.0, 1.0), "binds", "volume-credits"),
        (0.0, 0.5, CreditsLeft(1_000.0, None, None, 1.0, 1.0), "will bind", "volume-credits"),
        (0.0, 0.5, CreditsLeft(4_000.0, None, None, 1.0, 1.0), "fine", None),
        (0.0, 0.5, CreditsLeft(0.0, None, None, 1.0, 1.0), "touched", "volume-credits"),
    ],
)
def test_verdicts_of_the_last_minute(share, io_wait, rest, word, limit):
    result = judged(60, share, io_wait, rest)
    assert (result.word, result.limit) == (word, limit)
    assert judged(1, 1.0, 0.9).word != "binds", "a single second is no verdict"


@pytest.mark.parametrize(("io_wait", "word"), [(None, "binds"), (0.5, "binds"), (0.05, "touched")])
def test_credits_that_are_gone_bind_where_nobody_counts_the_waiting(io_wait, word):
    """BurstBalance on instances that are not Nitro: at zero it must not look as if it were over."""
    judge, server = Judge(), None if io_wait is None else ServerNow("m", io_wait=io_wait, running=4.0)
    empty = CreditsLeft(0.0, None, None, 1.0, 1.0)
    moment = Moment("t", 0.0, 60.0, (Judge.UNKNOWN,), (VolumeNow("db", "db", time_to_empty=empty),), server=server)
    assert judge.see(moment)[0].word == word


def test_every_limit_is_found_the_worst_first():
    """An alarm for the second is not late because the first is worse."""
    rest = CreditsLeft(1_000.0, None, None, 1.0, 1.0)
    judge, volumes = (
        Judge(),
        (
            VolumeNow("db", "db", exceeded={"volume-iops": 0.9, "instance-iops": 0.3}),
            VolumeNow("log", "log", exceeded={"volume-bytes": 0.5}, time_to_empty=rest),
            VolumeNow("tmp", "tmp", exceeded={"volume-bytes": 0.01}),
        ),
    )
    results: list[tuple[LiveVerdict, ...]] = []
    for second in range(10):
        results.append(judge.see(Moment("t", float(second), 1.0, (Judge.UNKNOWN,), volumes)))
    assert [(entry.word, entry.where, entry.limit) for entry in results[-1]] == [
        ("binds", "db", "volume-iops"),
        ("binds", "log", "volume-bytes"),
        ("binds", "db", "instance-iops"),
        ("will bind", "log", "volume-credits"),
    ]


def test_row_locks_acquit_storage():
    judge, server = Judge(), ServerNow("m", io_wait=0.2, running=4.0, waits={"row locks": 0.7})
    results: list[tuple[LiveVerdict, ...]] = []
    for second in range(10):
        volume = VolumeNow("db", "db", exceeded={"volume-iops": 0.5})
        results.append(judge.see(Moment("t", float(second), 1.0, (Judge.UNKNOWN,), (volume,), server=server)))
    (entry,) = results[-1]
    assert entry.word == "not storage" and "70 %" in entry.text


def test_without_exceeded_times_it_cannot_tell():
    moment = Moment("t", 0.0, 1.0, (Judge.UNKNOWN,), (VolumeNow("db", reads=IoNow(5.0)),))
    assert Judge().see(moment)[0].word == "cannot tell"
