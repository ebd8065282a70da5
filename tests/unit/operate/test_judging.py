"""Verdicts from evidence made by hand: each verdict, each innocence, each threshold at its edge, and
what would make a DBA angry."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from doctored import evidence, findings, headline

from headrace.observe.evidence.model import SeenChannel
from headrace.operate.doctor.diagnosis import diagnose
from headrace.operate.doctor.judging import MOST_FINDINGS
from headrace.operate.doctor.model import OF_STORAGE, VERDICTS
from headrace.operate.doctor.thresholds import Thresholds, read_thresholds
from headrace.operate.doctor.verdicts import read_verdicts as verdict_table

# Clients at a limit: reads take 20 ms, four clients read 180 pages a second: 3.6 of 4 wait.
AT_LIMIT = {"read_iops": 180.0, "charged_iops": 280.0, "read_ms": 20.0, "read_p50_ms": 19.0, "queue": 4.0}
WAITING = {"pool_reads_per_s": 180.0, "tps": 30.0}


def over(name: str, share: float = 0.8, **more) -> dict:
    return AT_LIMIT | {f"over_{name}": share} | more


@pytest.mark.parametrize(
    ("volume", "more", "expected"),
    [
        (over("volume_iops"), {}, ("binds", "volume-iops")),
        (over("volume_throughput"), {}, ("binds", "volume-throughput")),
        (over("instance_iops"), {"instance": "m4.large"}, ("binds", "instance-iops")),
        (over("instance_throughput"), {"instance": "m4.large"}, ("binds", "instance-throughput")),
        (over("volume_iops", balance_percent=0.2), {"storage": "gp2:100"}, ("binds", "volume-credits")),
        (over("volume_throughput", balance_percent=0.0), {"storage": "st1:500"}, ("binds", "volume-credits")),
        # The byte cap of a gp2 volume has nothing to do with its credits of I/Os.
        (over("volume_throughput", balance_percent=0.2), {"storage": "gp2:100"}, ("binds", "volume-throughput")),
        (over("instance_iops", instance_io_balance_percent=0.0), {"instance": "t3.nano"}, ("binds", "instance-credits")),
        (over("volume_iops"), {"state": "optimizing"}, ("binds", "optimizing")),
        ({"read_ms": 40.0, "read_p50_ms": 35.0, "read_iops": 90.0, "charged_iops": 100.0, "write_iops": 10.0}, {}, ("degraded", "degraded")),
        ({"read_ms": 40.0, "read_p50_ms": 35.0, "read_iops": 90.0}, {"state": "initializing"}, ("binds", "first-touch")),
        ({"stalled": 1.0}, {}, ("degraded", "degraded")),
    ],
)  # fmt: skip
def test_storage_that_is_to_blame(volume, more, expected):
    assert headline(evidence(volume, WAITING, **more)) == expected


@pytest.mark.parametrize(
    ("server", "host", "volume", "expected"),
    [
        ({"lock_waiters": 3.5}, None, None, ("not storage", "locks")),
        # A client that still waits has counted nothing yet.
        ({"lock_waiters": 0.0, "lock_waiting": 3.0}, None, None, ("not storage", "locks")),
        ({"server_cpus": 3.6}, {"user_cpus": 3.5, "system_cpus": 0.3}, None, ("not storage", "processors")),
        (None, {"steal_cpus": 0.8}, None, ("not storage", "processors")),
        ({"threads_running": 8.0}, {"psi_cpu_share": 0.9}, None, ("not storage", "processors")),
        ({"threads_running": 0.5, "threads_connected": 40.0}, None, None, ("not storage", "network")),
        (None, None, {"read_iops": 800.0, "read_mib_s": 150.0}, ("not storage", "backup")),
        ({"tps": 0.0, "threads_running": 0.0}, None, {"read_iops": 0.0, "write_iops": 0.2}, ("fine", "idle")),
        (None, None, None, ("fine", "fine")),
    ],
)
def test_storage_that_is_innocent(server, host, volume, expected):
    verdicts = findings(evidence(volume, server, host))
    assert (verdicts[0].verdict, verdicts[0].subject) == expected
    assert verdicts[0].verdict not in OF_STORAGE


@pytest.mark.parametrize(
    ("server_cpus", "running", "expected"),
    [
        # The processors' weight is 0.95 of the 0.5 statements under way of 8 connections, the network's 0.7 of the rest.
        (0.1, 0.5, "network"),
        # The server is one of those who took them, and so may its clients be.
        (1.0, 0.5, "processors"),
        # Others took them, and the statements wait.
        (0.1, 8.0, "processors"),
    ],
)
def test_processors_that_others_took(server_cpus, running, expected):
    server = {"server_cpus": server_cpus, "threads_running": running, "threads_connected": 8.0}
    server |= {"log_bytes_per_s": 0.0, "pool_reads_per_s": 40.0}
    host = {"user_cpus": 3.5, "system_cpus": 0.3}
    assert headline(evidence(None, server, host)) == ("not storage", expected)


def test_pages_that_the_cleaner_keeps_free_are_not_a_cold_cache():
    """A pool of 25 MiB has 1,600 pages of 16 KiB, and MariaDB frees up to 1,536 of them under load."""
    seen = {"free_share": lambda index: 0.95 - 0.09 * index, "uptime_s": 28.0}
    depth = {"innodb_lru_scan_depth": "1536"}
    result = headline(evidence(over("volume_iops"), WAITING | seen, variables=depth))
    assert result == ("binds", "volume-iops")
    assert headline(evidence(over("volume_iops"), WAITING | seen))[1] == "cold-cache"


def test_a_cold_cache_comes_before_the_limit_that_it_meets():
    cold = {"free_share": lambda index: 0.95 - 0.09 * index, "uptime_s": 120.0}
    verdicts = findings(evidence(over("volume_iops"), WAITING | cold))
    assert (verdicts[0].verdict, verdicts[0].subject) == ("not storage", "cold-cache")
    assert "volume-iops" in [verdict.subject for verdict in verdicts]
    # Hours after the start, or with a pool that keeps some pages free, it is no excuse.
    assert headline(evidence(over("volume_iops"), WAITING | cold | {"uptime_s": 7_200.0})) == ("binds", "volume-iops")
    assert headline(evidence(over("volume_iops"), WAITING | {"free_share": 0.5, "uptime_s": 60.0})) == (
        "binds",
        "volume-iops",
    )


def test_a_volume_that_loads_from_its_snapshot_is_no_cold_cache():
    """A cache that fills asks for more reads; it does not make one take 9 ms (gp3's p99 is below 2)
    on a volume below its limits. One read in four is the first of its block here."""
    cold = {"free_share": lambda index: 0.95 - 0.09 * index, "uptime_s": 60.0}
    volume = {"read_ms": 9.0, "read_p50_ms": 0.5, "read_iops": 90.0, "charged_iops": 90.0}
    server = {"pool_reads_per_s": 90.0, "tps": 30.0} | cold
    verdicts = findings(evidence(volume, server, state="initializing"))
    assert (verdicts[0].verdict, verdicts[0].subject) == ("binds", "first-touch")
    assert "9.0 ms" in verdicts[0].words
    # Means alike without anything to load: most reads are as quick as the type's.
    assert headline(evidence(volume, server))[1] != "first-touch"
    assert "degraded" not in [finding.verdict for finding in findings(evidence(volume, server))]


def test_a_backup_comes_before_the_limit_that_it_meets():
    volume = over("volume_throughput", read_iops=500.0, read_mib_s=125.0)
    assert headline(evidence(volume, WAITING | {"data_read_bytes_per_s": 1e6})) == ("not storage", "backup")


@pytest.mark.parametrize(
    ("server", "volume", "expected"),
    [
        ({"checkpoint_share": 0.9, "pages_flushed_per_s": 400.0}, None, ("misconfigured", "redo")),
        ({"log_waits_per_s": 20.0}, None, ("misconfigured", "log-buffer")),
        ({"free_waits_per_s": 20.0}, None, ("misconfigured", "free-pages")),
    ],
)
def test_settings(server, volume, expected):
    assert headline(evidence(volume, server)) == expected


def test_one_applier():
    lag = {"lag_s": 120.0, "sql_running": 1.0}
    entry = {"slave_parallel_threads": "1"}
    assert headline(evidence(None, None, replica=lag, variables=entry)) == ("misconfigured", "applier")
    assert headline(evidence(None, None, replica=lag, variables={"slave_parallel_threads": "8"})) == ("fine", "fine")
    assert headline(evidence(None, None, replica={"lag_s": 1.0}, variables=entry)) == ("fine", "fine")
    # A delay that was asked for is no lag.
    assert headline(evidence(None, None, replica=lag | {"delay_s": lag["lag_s"]}, variables=entry)) == ("fine", "fine")


BILLING = SeenChannel("billing", "on", "on")
DUPLICATE = "1062: Duplicate entry '7' for key 'PRIMARY'"


@pytest.mark.parametrize(
    ("flavor", "broken", "words", "lines", "undo"),
    [
        ("mariadb", SeenChannel("orders", "on", "off", DUPLICATE), f"the apply thread is stopped, while billing works. The last error is {DUPLICATE}.", "START SLAVE 'orders' SQL_THREAD;", "STOP SLAVE 'orders' SQL_THREAD"),
        ("mysql", SeenChannel("orders", "on", "off", DUPLICATE), f"the apply thread is stopped, while billing works. The last error is {DUPLICATE}.", "START REPLICA SQL_THREAD FOR CHANNEL 'orders';", "STOP REPLICA SQL_THREAD FOR CHANNEL 'orders'"),
        ("mysql", SeenChannel("orders", "off", "on"), "the receive thread is stopped, while billing works. There is no error.", "START REPLICA IO_THREAD FOR CHANNEL 'orders';", "STOP REPLICA IO_THREAD FOR CHANNEL 'orders'"),
        ("mariadb", SeenChannel("orders", "off", "off"), "the receive thread is stopped and the apply thread is stopped,", "START SLAVE 'orders';", "STOP SLAVE 'orders'"),
        ("mysql", SeenChannel("orders", "connecting", "on", "2003: Can't connect"), "the receive thread does not connect, while", None, ""),
        ("mysql", SeenChannel("o'r", "on", "off"), "Replication channel o'r does not follow", None, ""),
        ("mysql", SeenChannel("", "on", "off"), "The default replication channel does not follow", "START REPLICA SQL_THREAD FOR CHANNEL '';", "STOP REPLICA SQL_THREAD FOR CHANNEL ''"),
    ],
)  # fmt: skip
def test_a_channel_that_does_not_work_beside_another(flavor, broken, words, lines, undo):
    replica = {"lag_s": 0.0, "sql_running": float(broken.apply == "on"), "io_running": float(broken.receive == "on")}
    # Clients that ask nothing do not excuse it.
    idle = {"tps": 0.0, "questions_per_s": 0.0, "threads_running": 0.0}
    rest = {"read_iops": 0.0, "write_iops": 0.0, "charged_iops": 0.0}
    seen = evidence(rest, idle, flavor=flavor, replica=replica, follows=True, channels=(BILLING, broken))
    [first, *others] = findings(seen)
    assert (first.verdict, first.subject) == ("misconfigured", "channel") and words in first.words
    assert [figure.words for figure in first.figures] == ["1 of 2 channels work"]
    [remedy] = first.remedies
    assert (remedy.lines, remedy.undo) == ((lines,) if lines else (), undo) and remedy.what
    assert not [finding for finding in others if finding.subject == "channel"]


def test_channels_that_are_no_finding():
    stopped, broken = {"sql_running": 0.0, "io_running": 0.0}, replace(BILLING, apply="off", error=DUPLICATE)
    alone = replace(BILLING, receive="off", apply="off")
    assert headline(evidence(replica=stopped, channels=(broken,))) == ("misconfigured", "channel"), "alone, by an error"
    for channels, replica in (
        ((BILLING, BILLING), stopped),  # started again meanwhile
        ((alone,), stopped),  # taken out of replication by somebody
        ((BILLING, replace(alone, receive="connecting", apply="on")), stopped),  # on its way, without an error
        ((BILLING, broken), {"sql_running": 1.0, "io_running": 1.0}),  # not within this window
    ):
        assert headline(evidence(replica=replica, channels=channels)) == ("fine", "fine"), channels


def test_a_member_of_an_array():
    members = {"0": {"read_p50_ms": 0.5}, "1": {"read_p50_ms": 30.0}}
    verdicts = findings(evidence({"read_p50_ms": 2.0, "read_ms": 15.0}, WAITING, storage="2xgp3:500", members=members))
    assert (verdicts[0].verdict, verdicts[0].subject) == ("degraded", "member") and "data/1" in verdicts[0].words


def test_touched_is_not_felt():
    # Reads at the limit, but of somebody else than the clients: the pool reads nothing.
    assert headline(evidence(over("volume_iops"), {"pool_reads_per_s": 0.0, "log_bytes_per_s": 0.0})) == (
        "touched",
        "volume-iops",
    )


def test_without_a_server_nothing_is_said_of_its_clients():
    verdicts = findings(evidence(over("volume_iops"), with_server=False))
    assert (verdicts[0].verdict, verdicts[0].subject, verdicts[0].felt, verdicts[0].basis) == (
        "binds",
        "volume-iops",
        None,
        "seen",
    )


def test_the_limit_that_is_felt_most_comes_first():
    volume = over("volume_iops", 0.2, over_instance_iops=0.7)
    subjects = [finding.subject for finding in findings(evidence(volume, WAITING, instance="m4.large"))]
    assert subjects.index("instance-iops") < subjects.index("volume-iops")


def test_locks_that_are_held_by_clients_at_a_limit():
    """Row locks pile up behind writes that wait for the volume: the volume is what is slow."""
    volume = over("volume_iops", 0.9, write_ms=30.0)
    server = {
        "lock_waiters": 2.6,
        "threads_running": 4.0,
        "pool_reads_per_s": 0.0,
        "tps": 45.0,
        "checkpoint_share": 0.2,
    }
    assert headline(evidence(volume, server)) == ("binds", "volume-iops")
    # These locks and a volume with room: locks.
    assert headline(evidence({"write_ms": 1.0}, server)) == ("not storage", "locks")


def test_a_balance_that_hardly_falls_tells_no_time():
    # The least fall is 0.005 % in a window of 60 s: by whole percents, as CloudWatch prints them, it stands still.
    volume = {"read_iops": 2_700.0, "charged_iops": 2_800.0}
    for fall_percent, is_told in ((0.004, False), (0.006, True)):
        falling = volume | {"balance_percent": lambda index, fall=fall_percent: 20.0 - fall / 59 * index}
        given = findings(evidence(falling, {"tps": 900.0, "threads_running": 3.0}, storage="gp2:100"))
        assert ("will bind" in [finding.verdict for finding in given]) is is_told


def test_credits_that_will_be_gone():
    # gp2:100 refills 300; at 2,800 IOPS 20 % of 5.4 million last 432 s (1.08 million / 2,500).
    volume = {"read_iops": 2_700.0, "charged_iops": 2_800.0, "balance_percent": lambda index: 20.0 - 0.05 * index}
    verdicts = findings(evidence(volume, {"tps": 900.0, "threads_running": 3.0}, storage="gp2:100"))
    assert (verdicts[0].verdict, verdicts[0].subject) == ("will bind", "volume-credits")
    value = next(figure.value for figure in verdicts[0].figures if figure.name == "empty_in_s")
    assert value == pytest.approx(0.1955 * 5.4e6 / 2_500, rel=0.01)


# --- what would make a DBA angry ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("volume", "more"),
    [
        ({"queue": 40.0, "read_iops": 2_990.0, "charged_iops": 2_990.0, "read_ms": 0.9}, {}),  # a queue is no verdict
        ({"balance_percent": 60.0}, {"storage": "gp2:100"}),
        ({"idle_share": 0.0}, {}),  # 100 % of %util on NVMe
        ({"read_ms": 0.0, "read_p50_ms": None, "read_iops": 2.0, "write_iops": 0.0}, {}),  # an idle minute
    ],
)
def test_no_alarm(volume, more):
    verdicts = findings(evidence(volume, {"tps": 100.0, "pool_reads_per_s": 50.0}, **more))
    assert verdicts[0].verdict in ("fine", "not storage"), verdicts[0]
    assert not [verdict for verdict in verdicts if verdict.verdict in OF_STORAGE]


def test_a_hit_ratio_is_never_named():
    package = Path(__file__).parents[3] / "python/headrace/operate/doctor"
    assert not [path.name for path in package.rglob("*.py") if re.search(r"hit.ratio", path.read_text(), re.IGNORECASE)]


def test_one_burst_is_no_limit():
    volume = AT_LIMIT | {"over_volume_iops": lambda index: 0.9 if index == 3 else 0.0}
    assert not [finding for finding in findings(evidence(volume, WAITING)) if finding.subject == "volume-iops"]


def test_only_the_window_counts():
    collected = evidence(
        AT_LIMIT | {"over_volume_iops": lambda index: 1.0 if index < 100 else 0.0}, WAITING, seconds=200
    )
    assert not [finding for finding in findings(collected) if finding.subject == "volume-iops"]
    collected = evidence(
        AT_LIMIT | {"over_volume_iops": lambda index: 1.0 if index >= 150 else 0.0}, WAITING, seconds=200
    )
    assert headline(collected) == ("binds", "volume-iops")


def test_a_verdict_has_its_numbers_and_grain():
    for result in (evidence(over("volume_iops"), WAITING), evidence(None, {"lock_waiters": 3.9})):
        first = findings(result)[0]
        assert first.figures and first.grain and re.search(r"\d", first.words)
    coarse = findings(evidence(over("volume_iops"), WAITING, grain_s=60.0, exact=False))[0]
    assert "bursts shorter" in coarse.grain


def test_one_headline_and_three_findings():
    volume = over("volume_iops", 0.9, over_volume_throughput=0.5, over_instance_iops=0.4, over_instance_throughput=0.3)
    diagnosis = diagnose(evidence(volume, WAITING, instance="m4.large"))
    assert (
        len(diagnosis.findings) == MOST_FINDINGS
        and diagnosis.others
        and diagnosis.headline == diagnosis.findings[0].words
    )


def test_nothing_known():
    assert headline(evidence(with_server=False, with_volume=False)) == ("cannot tell", "nothing")
    assert headline(evidence(with_volume=False)) == ("cannot tell", "volumes")
    unknown = {
        name: None
        for name in ("over_volume_iops", "over_volume_throughput", "over_instance_iops", "over_instance_throughput")
    }
    assert headline(evidence(unknown, {"pool_reads_per_s": 10.0}, storage=None)) == ("cannot tell", "limits")


# --- inference, where nothing counts the time over a limit -----------------------------------------

NO_PAGE = {
    name: None
    for name in ("over_volume_iops", "over_volume_throughput", "over_instance_iops", "over_instance_throughput")
}


def test_rate_and_latency_or_nothing():
    at = {"read_iops": 2_900.0, "write_iops": 90.0, "charged_iops": 2_990.0}
    slow = {"read_ms": 9.0, "read_p50_ms": 9.0}
    assert headline(evidence(NO_PAGE | at | slow, exact=False)) == ("binds", "volume-iops")
    assert headline(evidence(NO_PAGE | at, exact=False)) == ("fine", "fine"), "a rate alone is no limit"
    away = {"read_iops": 500.0, "charged_iops": 590.0}
    assert headline(evidence(NO_PAGE | away | slow, exact=False))[1] != "volume-iops", "latency alone is no limit"


def test_spent_credits_are_inferred():
    at = {"read_iops": 290.0, "write_iops": 10.0, "charged_iops": 300.0, "read_ms": 25.0, "read_p50_ms": 25.0}
    assert headline(evidence(NO_PAGE | at, exact=False, storage="gp2:100")) == ("binds", "volume-credits")
    full = at | {"balance_percent": 80.0}
    assert headline(evidence(NO_PAGE | full, exact=False, storage="gp2:100"))[1] != "volume-credits"


# --- the table of thresholds ------------------------------------------------------------------------

SEEN = {"pool_reads_per_s": 180.0, "tps": 30.0}
DEGRADED = {"read_ms": 40.0, "read_p50_ms": 35.0, "read_iops": 90.0, "charged_iops": 100.0, "write_iops": 10.0}


def _seen(share):
    return evidence(AT_LIMIT | {"over_volume_iops": share}, SEEN)


# By threshold: evidence below and above it, the headline it turns on, and the value of it.
EDGES = {
    "seen_share": (_seen(0.049), _seen(0.051), "volume-iops"),
    "credits_gone_percent": (
        evidence(over("volume_iops", balance_percent=1.01), SEEN, storage="gp2:100"),
        evidence(over("volume_iops", balance_percent=0.99), SEEN, storage="gp2:100"),
        "volume-credits",
    ),
    "inferred_use": (
        evidence(NO_PAGE | {"charged_iops": 2_900.0, "read_p50_ms": 9.0}, exact=False),
        evidence(NO_PAGE | {"charged_iops": 2_920.0, "read_p50_ms": 9.0}, exact=False),
        "volume-iops",
    ),
    "inferred_seconds_share": (
        evidence(NO_PAGE | {"charged_iops": lambda index: 3_000.0 if index < 2 else 500.0, "read_p50_ms": 9.0}, exact=False),
        evidence(NO_PAGE | {"charged_iops": lambda index: 3_000.0 if index < 4 else 500.0, "read_p50_ms": 9.0}, exact=False),
        "volume-iops",
    ),
    "lock_share": (evidence(None, {"lock_waiters": 1.96}), evidence(None, {"lock_waiters": 2.04}), "locks"),
    "processor_share": (
        evidence(None, None, {"user_cpus": 3.0, "system_cpus": 0.35}),
        evidence(None, None, {"user_cpus": 3.1, "system_cpus": 0.35}),
        "processors",
    ),
    "server_processor_share": (evidence(None, {"server_cpus": 2.36}), evidence(None, {"server_cpus": 2.44}), "processors"),
    "steal_share": (evidence(None, None, {"steal_cpus": 0.39}), evidence(None, None, {"steal_cpus": 0.41}), "processors"),
    "pressure_share": (
        evidence(None, None, {"psi_cpu_share": 0.49}),
        evidence(None, None, {"psi_cpu_share": 0.51}),
        "processors",
    ),
    "away_share": (
        evidence(None, {"threads_running": 2.04, "threads_connected": 8.0}),
        evidence(None, {"threads_running": 1.96, "threads_connected": 8.0}),
        "network",
    ),
    "foreign_share": (
        evidence({"read_iops": 100.0, "read_mib_s": 20.0}, {"data_read_bytes_per_s": 0.51 * 20 * 2**20}),
        evidence({"read_iops": 100.0, "read_mib_s": 20.0}, {"data_read_bytes_per_s": 0.49 * 20 * 2**20}),
        "backup",
    ),
    "checkpoint_share": (
        evidence(None, {"checkpoint_share": 0.74, "pages_flushed_per_s": 400.0}),
        evidence(None, {"checkpoint_share": 0.76, "pages_flushed_per_s": 400.0}),
        "redo",
    ),
    "redo_holds_s": (  # 3e7 bytes are 0.3 of the log: 1e8 hold 60 s of 1.667 MB/s
        evidence(None, {"log_bytes_per_s": 1.64e6, "pages_flushed_per_s": 400.0}),
        evidence(None, {"log_bytes_per_s": 1.69e6, "pages_flushed_per_s": 400.0}),
        "redo",
    ),
    # Four clients, 400 reads a second: 0.6 ms of each are 6 % of their time, 1.6 ms 16 %.
    "queued_rest_share": (
        evidence({"read_ms": 1.6}, {"log_bytes_per_s": 0.0}, {"psi_cpu_share": 0.9}),
        evidence({"read_ms": 1.4}, {"log_bytes_per_s": 0.0}, {"psi_cpu_share": 0.9}),
        "processors",
    ),
    "queued_server_share": (  # of four processors
        evidence(None, {"server_cpus": 0.59, "log_bytes_per_s": 0.0}, {"psi_cpu_share": 0.9}),
        evidence(None, {"server_cpus": 0.61, "log_bytes_per_s": 0.0}, {"psi_cpu_share": 0.9}),
        "processors",
    ),
    "redo_writes_share": (
        evidence(None, {"checkpoint_share": 0.9, "pages_flushed_per_s": 245.0}),
        evidence(None, {"checkpoint_share": 0.9, "pages_flushed_per_s": 255.0}),
        "redo",
    ),
    "log_waits_per_s": (evidence(None, {"log_waits_per_s": 0.09}), evidence(None, {"log_waits_per_s": 0.11}), "log-buffer"),
    "cold_kept_share": (  # 10 s of 180 reads are 1,800 pages; half of them are 0.5625 of the pool's 1,600
        evidence(over("volume_iops"), SEEN | {"free_share": lambda index: 0.8 - 0.0620 * index, "uptime_s": 60.0}),
        evidence(over("volume_iops"), SEEN | {"free_share": lambda index: 0.8 - 0.0630 * index, "uptime_s": 60.0}),
        "cold-cache",
    ),
    "free_waits_per_s": (evidence(None, {"free_waits_per_s": 0.9}), evidence(None, {"free_waits_per_s": 1.1}), "free-pages"),
    "degraded_least_iops": (
        evidence(DEGRADED | {"read_iops": 4.9, "write_iops": 0.0}, {"pool_reads_per_s": 4.0}),
        evidence(DEGRADED | {"read_iops": 5.1, "write_iops": 0.0}, {"pool_reads_per_s": 4.0}),
        "degraded",
    ),
    "degraded_use": (
        evidence(DEGRADED | {"charged_iops": 2_410.0}, SEEN),
        evidence(DEGRADED | {"charged_iops": 2_390.0}, SEEN),
        "degraded",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EDGES)
def test_thresholds(name):
    """A threshold turns the headline where its row says, and at no other place."""
    below, above, subject = EDGES[name]
    assert subject not in [finding.subject for finding in findings(below)]
    assert headline(above)[1] == subject


def test_felt_turns_touched_into_binds():
    # Four clients: 0.1 of their time is 0.4 s a second, 20 reads of 20 ms.
    quiet = {"log_bytes_per_s": 0.0, "tps": 30.0}
    assert headline(evidence(over("volume_iops"), quiet | {"pool_reads_per_s": 19.0}))[0] == "touched"
    assert headline(evidence(over("volume_iops"), quiet | {"pool_reads_per_s": 21.0}))[0] == "binds"


def test_few_writers_among_many_readers_are_felt():
    """A hundred of 1,100 transactions write 500 bytes each: the binary log counts them, and their two syncs of 10 ms are
    half of four clients' time. By the mean of all, 45 bytes, nobody would seem to write."""
    slow = over("volume_iops")
    mixed = {"tps": 1_100.0, "log_bytes_per_s": 50_000.0, "pool_reads_per_s": 0.0}
    logging = {"log_bin": "ON", "sync_binlog": "1"}

    def felt(**more: float | None) -> float | None:
        collected = evidence(slow | {"write_ms": 10.0}, mixed | more, variables=logging)
        return next(finding.felt for finding in findings(collected) if finding.subject == "volume-iops")

    assert felt(logged_per_s=100.0) == pytest.approx(0.5) and felt(logged_per_s=None) == 0.0


def test_every_threshold_stands_in_the_table_with_a_source_and_a_test():
    here = Path(__file__).parent
    names = [row.name for row in read_thresholds()]
    assert len(names) == len(set(names))
    code = "".join(path.read_text() for path in (here.parents[2] / "python/headrace/operate/doctor").rglob("*.py"))
    conditions = {condition.threshold for verdict in verdict_table().values() for condition in verdict.conditions}
    assert len(conditions) > 10 and conditions <= set(names)
    for row in read_thresholds():
        assert row.source and row.unit and re.fullmatch(r"\d{4}-\d\d-\d\d", row.as_of), row.name
        file, _, test = row.test.partition("::")
        assert f"def {test}(" in (here / file).read_text(), row.test
        used = row.name in conditions or re.search(rf"\b(t|thresholds)\.{row.name}\b", code)
        assert used, f"{row.name} is in the table and not used"
    assert set(VERDICTS) >= {
        "binds",
        "touched",
        "degraded",
        "will bind",
        "misconfigured",
        "not storage",
        "fine",
        "cannot tell",
    }


def test_a_threshold_that_is_not_there():
    with pytest.raises(KeyError):
        Thresholds(no_such=1.0)


def test_a_slow_volume_that_nobody_feels_is_not_blamed_while_processors_are_short():
    """Requests wait for a processor as well: 3 ms where the type's p99 is 1.2 ms; 13 a second are 1 % of four clients' time."""
    slow = {"read_iops": 40.0, "read_ms": 3.0, "read_p50_ms": 3.0, "read_p99_ms": 6.0, "read_mib_s": 0.625}
    short = {"user_cpus": 3.4, "system_cpus": 0.5, "psi_cpu_share": 0.98}
    quiet = {"pool_reads_per_s": 13.0, "log_bytes_per_s": 0.0}
    assert headline(evidence(slow, quiet)) == ("degraded", "degraded")
    assert headline(evidence(slow, quiet, short)) == ("not storage", "processors")
    assert ("degraded", "degraded") in [
        (finding.verdict, finding.subject) for finding in findings(evidence(slow, quiet, short))
    ]
    # 40 reads a second of 50 ms are half of four clients' time.
    felt = slow | {"read_ms": 50.0, "read_p50_ms": 50.0}
    assert headline(evidence(felt, quiet | {"pool_reads_per_s": 40.0}, short)) == ("degraded", "degraded")


def test_a_stalled_volume_is_blamed_though_processors_are_short():
    """No I/O completes, so nobody seems to wait for it."""
    stalled = {"stalled": 1.0, "read_iops": 0.0, "write_iops": 0.0, "charged_iops": 0.0}
    nothing = {"tps": 0.0, "pool_reads_per_s": 0.0, "log_bytes_per_s": 0.0}
    short = {"user_cpus": 3.4, "system_cpus": 0.5, "psi_cpu_share": 0.98}
    assert headline(evidence(stalled, nothing, short)) == ("degraded", "degraded")


@pytest.mark.parametrize(
    ("reads", "writes", "doublewrite", "flavor", "redo"),
    [
        (311.0, 2_000.0, "ON", "mysql", True),
        (1_500.0, 1_300.0, "ON", "mysql", False),
        (311.0, 2_000.0, "OFF", "mysql", False),  # 848 of 2,311
        (311.0, 2_000.0, "DETECT_ONLY", "mysql", False),
        (311.0, 2_000.0, "ON", "mariadb", False),  # many pages in one write of its buffer
    ],
)
def test_a_flushed_page_is_written_once_more_in_the_doublewrite_buffer(reads, writes, doublewrite, flavor, redo):
    """848 pages flushed a second and 345 syncs of redo log and binlog each, as MySQL 9.7 does with 8 MiB of redo: all writes
    but those of logs are 1,310 of 2,311 I/Os, which is more than half; or 848 of 2,800, which is less."""
    volume = {"read_iops": reads, "write_iops": writes, "charged_iops": reads + writes, "write_mib_s": writes / 64}
    server = {"pages_flushed_per_s": 848.0, "log_fsyncs_per_s": 345.0, "log_bytes_per_s": 540e3}
    server |= {"checkpoint_share": 0.45, "checkpoint_age_bytes": 3.34e6}
    has = {"log_bin": "ON", "sync_binlog": "1", "innodb_doublewrite": doublewrite}
    verdicts = findings(evidence(volume, server, variables=has, flavor=flavor))
    assert ("redo" in [verdict.subject for verdict in verdicts]) == redo


# Pages are flushed in the background, in bursts over the limit: the volume is at rest 70 % of the
# time, and the mean of the writes is 8 ms.
BURSTS = {"read_iops": 450.0, "write_iops": 450.0, "charged_iops": 900.0, "write_ms": 8.0, "idle_share": 0.7}
BURSTS |= {"over_volume_iops": 0.06}
FLUSHED = {"pages_flushed_per_s": 450.0}  # all of its writes


def test_a_limit_that_hardly_a_client_waits_for_is_touched():
    """Two clients, at work a third of the time, spend it with I/O that takes what it takes anywhere."""
    work = FLUSHED | {"pool_reads_per_s": 450.0, "threads_running": 0.3, "threads_connected": 2.0}
    [first, *_] = findings(evidence(BURSTS, work | {"tps": 30.0, "log_bytes_per_s": 330e3}))
    assert (first.verdict, first.subject) == ("touched", "volume-iops") and "Hardly a client waits" in first.words
    assert first.felt is not None and first.felt > 0.9
    # Requests as many, of clients who are all at work, and wait 19 ms longer than need be: 450
    # reads are 9 clients.
    slow = BURSTS | {"read_ms": 20.0, "read_p50_ms": 20.0, "idle_share": 0.0}
    assert headline(evidence(slow, work | {"threads_running": 9.0}))[0] == "binds"


def test_a_commit_meets_a_burst_of_page_writes_as_often_as_there_is_one():
    """Writes take 8 ms on average and gp3's own median is about 0.7 ms: a sync that comes at any time takes about
    0.7 + 0.3 x 7.3 = 2.9 ms. Ten times 100 of them a second are 2.9 of four clients; by the mean of the writes, all."""
    write = {"tps": 1_000.0, "log_bytes_per_s": 1e6, "pool_reads_per_s": 0.0}
    felt = findings(evidence(BURSTS, write | FLUSHED))[0].felt
    assert felt == pytest.approx(2.9 / 4, abs=0.03)
    assert findings(evidence(BURSTS | {"idle_share": None}, write | FLUSHED))[0].felt == 1.0
    # Without pages to flush the commits are the burst: each takes what a write takes.
    few = write | {"tps": 300.0, "threads_running": 6.0, "pages_flushed_per_s": 0.0}
    alone = BURSTS | {"write_ms": 10.0, "write_iops": 300.0, "idle_share": 0.9}
    [first, *_] = findings(evidence(alone, few))
    assert (first.verdict, first.felt) == ("binds", pytest.approx(0.5))


def test_the_commits_of_a_replica_are_no_clients():
    """The replica's appliers commit 100 times a second, and 40 pooled connections do nothing."""
    pool = {"threads_running": 0.5, "threads_connected": 40.0, "pool_reads_per_s": 0.0, "questions_per_s": 0.2}
    assert headline(evidence(None, pool, follows=True)) == ("fine", "fine")
    assert headline(evidence(None, pool | {"questions_per_s": 200.0}, follows=True)) == ("not storage", "network")
    slow = over("volume_iops", write_ms=10.0)
    # With clients at work nobody tells their commits from the appliers': it is not known who waits.
    [first, *_] = findings(evidence(slow, {"pool_reads_per_s": 0.0}, follows=True))
    assert (first.verdict, first.felt) == ("binds", None)
    # Nor where it is behind, though some readers of cached data do not wait.
    few, late = {"pool_reads_per_s": 0.0, "threads_running": 0.3}, {"lag_s": 900.0, "delay_s": 0.0}
    assert findings(evidence(slow, few, follows=True, replica=late))[0].verdict == "binds"
    # Nobody asks it anything, and its appliers wait for reads: the limit binds, and no client feels it.
    alone = {"threads_running": 0.0, "threads_connected": 1.0, "tps": 100.0}
    [first, *_] = findings(evidence(over("volume_iops"), WAITING | alone, follows=True))
    assert (first.verdict, first.subject, first.felt) == ("binds", "volume-iops", None)
    assert findings(evidence(slow, {"pool_reads_per_s": 0.0}))[0].felt > 0.1


def test_without_a_binary_log_reads_hide_no_writers():
    """100 of 1,100 statements write 500 bytes each; a sync of 10 ms each is a quarter of four clients' time."""
    mixed = {"tps": 1_100.0, "log_bytes_per_s": 50_000.0, "pool_reads_per_s": 0.0, "writing_per_s": 100.0}
    collected = evidence(over("volume_iops", write_ms=10.0), mixed)
    assert next(finding.felt for finding in findings(collected) if finding.subject == "volume-iops") == pytest.approx(
        0.25
    )


@pytest.mark.parametrize("page, subject", [("65536", "fine"), ("16384", "backup")])
def test_reads_of_one_page_are_not_a_backups(page, subject):
    """innodb_page_size may be 64 KiB (MariaDB and MySQL, system variables)."""
    reads = {"read_iops": 100.0, "read_mib_s": 6.25}
    collected = evidence(reads, {"data_read_bytes_per_s": 2.0 * 2**20}, variables={"innodb_page_size": page})
    assert headline(collected)[1] == subject


# --- the instance, where nobody counts the time over it -------------------------------------------

UNCOUNTED = dict.fromkeys(
    ("over_volume_iops", "over_volume_throughput", "over_instance_iops", "over_instance_throughput")
)
SLOW = {"read_ms": 9.0, "read_p50_ms": 9.0, "read_p99_ms": 20.0, "write_iops": 0.0, "write_mib_s": 0.0}


@pytest.mark.parametrize("iops", [3_600.0, 3_200.0])
def test_an_instance_at_its_baseline_is_not_ebs_fault(iops):
    """m5.large gives 3,600 IOPS without its burst, and the volume 10,000: at 3,600 that binds, near it nobody knows."""
    busy = UNCOUNTED | SLOW | {"read_iops": iops, "charged_iops": iops, "read_mib_s": iops / 64}
    result = [
        (finding.verdict, finding.subject)
        for finding in findings(evidence(busy, storage="gp3:500:10000", instance="m5.large"))
    ]
    assert not [entry for entry in result if entry[0] == "degraded"]
    assert (("binds", "instance-credits") in result) == (iops == 3_600)
    # Far below every limit it is.
    idle = busy | {"read_iops": 500.0, "charged_iops": 500.0, "read_mib_s": 7.8}
    assert headline(evidence(idle, storage="gp3:500:10000", instance="m5.large"))[0] == "degraded"
    # With some of its burst left the baseline is no limit.
    rest = busy | {"instance_io_balance_percent": 60.0}
    assert headline(evidence(rest, storage="gp3:500:10000", instance="m5.large"))[0] != "binds"


def test_idle_connections_excuse_no_limit():
    """200 connections, 12 with a statement under way, which wait for the volume at its limit."""
    pool = SEEN | {"threads_running": 12.0, "threads_connected": 200.0}
    assert headline(evidence(over("volume_iops"), pool)) == ("binds", "volume-iops")


def test_redo_and_log_buffer_never_become_smaller():
    full = {"checkpoint_share": 0.9, "pages_flushed_per_s": 400.0}
    large = {"innodb_redo_log_capacity": str(16 << 30)}
    (first, *_) = findings(evidence(None, full, variables=large))
    assert first.subject == "redo" and str(32 << 30) in first.remedies[0].lines[0]
    (first, *_) = findings(
        evidence(None, {"log_waits_per_s": 1.0}, variables={"innodb_log_buffer_size": str(256 << 20)})
    )
    assert first.subject == "log-buffer" and str(512 << 20) in first.remedies[0].lines[0]
    # A log that holds months of the load is large enough, however full it is.
    assert headline(evidence(None, full | {"log_bytes_per_s": 1_000.0}))[1] != "redo"


# --- what EBS is not blamed for -------------------------------------------------------------------


def test_reads_that_may_be_of_cold_blocks_are_no_fault_of_ebs():
    """Slow reads beside quick writes: a volume made from a snapshot has them. The lab says when blocks
    are still loaded; nobody says it of EBS."""
    reads = {"read_ms": 18.0, "read_p50_ms": 18.0, "read_mean_ms": 18.0, "queue": 7.3}
    assert headline(evidence(reads)) == ("degraded", "degraded")
    first = findings(evidence(reads, loading_known=False))[0]
    assert (first.verdict, first.subject) == ("cannot tell", "first-touch")
    assert "snapshot" in first.words and "EBS's fault" not in first.words
    both = reads | {"write_ms": 25.0, "write_p50_ms": 25.0}
    assert headline(evidence(both, loading_known=False)) == ("degraded", "degraded")


def test_a_device_that_rests_may_have_had_bursts():
    """500 IOPS of 0.5 and 0.7 ms keep a device busy for a quarter of the time: busy for that long
    and slow, it had bursts; busy all the time, it had none. This holds if time over limits is not
    counted."""
    slow = {"read_ms": 18.0, "read_p50_ms": 18.0, "write_ms": 25.0, "write_p50_ms": 25.0}
    slow |= {
        name: None
        for name in ("over_volume_iops", "over_volume_throughput", "over_instance_iops", "over_instance_throughput")
    }
    for idle, verdict in ((0.75, "cannot tell"), (0.0, "degraded")):
        first = findings(evidence(slow | {"idle_share": idle}, exact=False, with_server=False))[0]
        assert first.verdict == verdict
    unknown = findings(evidence(slow, exact=False, with_server=False))[0]
    assert (unknown.verdict, unknown.subject) == ("cannot tell", "bursts") and "shorter interval" in unknown.words


def test_a_limit_far_above_the_mean_is_met_in_bursts():
    """2,819 of 8,600 IOPS, over the limit for 62 % of the time: told as bursts, of what there is more."""
    figures = {"read_iops": 500.0, "write_iops": 2_319.0, "charged_iops": 2_819.0, "over_volume_iops": 0.62}
    first = findings(evidence(figures, storage="gp3:18:8600:175", with_server=False))[0]
    assert first.subject == "volume-iops" and "in bursts of writes (33 % of the limit on the mean)" in first.words
