"""Gain of lifting a limit: the database of a window's counters, the next limit, the interval."""

from __future__ import annotations

import gzip
import random

import pytest
from doctored import evidence

from headrace.errors import InputError
from headrace.observe.evidence import evidence_file
from headrace.operate.doctor.advising.gains import Counsel, find_next_limit
from headrace.operate.doctor.advising.own_database import infer_own_database, predict_tps
from headrace.operate.doctor.diagnosis import diagnose
from headrace.operate.doctor.signals import compute_signals
from headrace.operate.doctor.thresholds import Thresholds
from headrace.operate.targets import SourceOptions, read_evidence

# Eight clients on io1:100:300: 300 reads a second, 3 a transaction, each waits 26 ms.
AT_300 = {
    "read_iops": 300.0, "write_iops": 0.0, "charged_iops": 300.0, "read_mib_s": 4.6875, "write_mib_s": 0.0,
    "read_ms": 26.4, "read_p50_ms": 26.0, "queue": 7.9, "over_volume_iops": 0.99,
}  # fmt: skip
CLIENTS = {
    "tps": 100.0, "pool_reads_per_s": 300.0, "threads_running": 8.0, "threads_connected": 8.0, "log_bytes_per_s": 0.0,
    "pages_flushed_per_s": 0.0, "server_cpus": 0.1, "data_read_bytes_per_s": 300 * 16_384.0,
}  # fmt: skip
IO1 = "io1:100:300"


def signals(volume=None, server=None, **more):
    return compute_signals(
        evidence(AT_300 | (volume or {}), CLIENTS | (server or {}), **({"storage": IO1} | more)), Thresholds()
    )


def test_today_is_simulated_as_it_is():
    """The database made of the counters runs on today's storage as the server does: 100 a second,
    bound by the volume."""
    own = infer_own_database(signals())
    assert own is not None and own.clients == 8
    tps, cap = predict_tps(own.database, own.clients, IO1, None, None, None)
    assert tps == pytest.approx(100.0, rel=0.05) and cap == "volume-iops"


def test_twice_the_limit_is_twice_the_transactions_while_clients_wait():
    # Response 80 ms, 79.2 of it for reads; at 600 IOPS 200 a second would take 40 ms: still the volume.
    own = infer_own_database(signals())
    assert own is not None
    tps, cap = predict_tps(own.database, own.clients, "io1:100:600", None, None, None)
    assert tps == pytest.approx(200.0, rel=0.05) and cap == "volume-iops"


def test_lifting_brings_little_where_clients_do_little_else():
    # Half of the eight clients' time is something else: at most twice as many transactions.
    own = infer_own_database(signals({"read_ms": 13.2, "read_p50_ms": 13.0}))
    assert own is not None
    tps, cap = predict_tps(own.database, own.clients, "io2:100:20000", None, None, None)
    assert 170.0 < tps < 205.0 and cap == "clients"


def test_against_naive_arithmetic():
    """A closed loop by hand: X = min(cap / reads, N / (base + reads x latency)), within the smooth
    turn from one to the other."""
    chance = random.Random(7)
    for _ in range(20):
        reads, base_ms, clients = chance.uniform(1, 8), chance.uniform(2, 60), chance.choice((4, 8, 16))
        iops = chance.choice((200, 400, 900))
        own_ms = 0.5
        free = clients / (base_ms + reads * own_ms) * 1e3
        tps = min(iops / reads, free)
        wait_ms = (clients / tps * 1e3 - base_ms) / reads
        result = signals(
            {"read_iops": tps * reads, "charged_iops": tps * reads, "read_ms": wait_ms, "read_mib_s": tps * reads / 64},
            {"tps": tps, "pool_reads_per_s": tps * reads, "threads_running": float(clients), "threads_connected": float(clients), "server_cpus": 0.02},
            storage=f"io1:100:{iops}",
        )  # fmt: skip
        own = infer_own_database(result)
        assert own is not None
        for lifted in (2 * iops, 4 * iops):
            details, _ = predict_tps(own.database, own.clients, f"io1:100:{lifted}", None, None, None)
            # 8 as the sharpness: where both are alike the turn costs 8 % (2^(-1/8)).
            assert details == pytest.approx(min(lifted / reads, free), rel=0.12), (reads, base_ms, clients, iops)


def test_a_finding_says_what_it_brings_and_what_is_next():
    quiet = {"user_cpus": 0.1, "system_cpus": 0.02}
    diagnosis = diagnose(evidence(AT_300, CLIENTS, quiet, storage=IO1, instance="m4.large"), Counsel())
    first = diagnosis.findings[0]
    assert (first.verdict, first.subject) == ("binds", "volume-iops") and first.gain is not None
    assert first.gain.low <= first.gain.transactions <= first.gain.high and first.gain.transactions > 1.0
    # io1 gives 256 KiB for each IOPS: 75 MiB/s; m4.large 3,600 IOPS and 53.6 MiB/s. 4.6875 MiB/s are read.
    assert first.gain.next_limit == "instance-throughput" and first.gain.at_factor == pytest.approx(
        56_250_000 / 2**20 / 4.6875
    )
    assert "The next limit is" in first.words and first.remedies and first.remedies[0].undo


@pytest.mark.parametrize(
    ("subject", "volume", "instance", "expected", "factor"),
    [
        (
            "volume-iops",
            {"charged_iops": 3_000.0, "read_mib_s": 46.9},
            "m4.large",
            "instance-throughput",
            56_250_000 / 2**20 / 46.9,
        ),
        ("volume-iops", {"charged_iops": 3_000.0, "read_mib_s": 20.0}, "m4.large", "instance-iops", 3_600 / 3_000),
        ("volume-iops", {"charged_iops": 3_000.0, "read_mib_s": 100.0}, None, "volume-throughput", 125 / 100),
        ("instance-iops", {"charged_iops": 2_800.0, "read_mib_s": 20.0}, "m4.large", "volume-iops", 3_000 / 2_800),
        ("volume-throughput", {"charged_iops": 2_000.0, "read_mib_s": 125.0}, None, "volume-iops", 1.5),
    ],
)
def test_the_next_limit(subject, volume, instance, expected, factor):
    result = signals(volume | {"over_volume_iops": 0.0}, {"server_cpus": None}, storage="gp3:500", instance=instance)
    name, at = find_next_limit(subject, result.volumes[0], result)
    assert (name, at) == (expected, pytest.approx(factor, rel=1e-3))


def test_processors_can_be_next():
    result = signals(None, {"server_cpus": 3.0}, storage=IO1)
    assert find_next_limit("volume-iops", result.volumes[0], result) == ("cpu", pytest.approx(4 / 3))


def test_the_instance_that_binds_next_is_said_to():
    volume = {"charged_iops": 3_000.0, "read_iops": 3_000.0, "read_mib_s": 52.5, "over_volume_iops": 0.9}
    diagnosis = diagnose(evidence(AT_300 | volume, CLIENTS, storage="gp3:500", instance="m4.large"), Counsel())
    assert "It will not help alone: the instance's EBS throughput binds at 1" in diagnosis.findings[0].words


def test_an_instance_whose_burst_is_gone_is_simulated_without_it():
    """1,240 reads of 64 KiB a second are 77.5 of the 81.25 MB/s, 77.5 MiB/s, that m5.large has without its burst."""
    volume = {
        "read_iops": 1_240.0, "charged_iops": 1_240.0, "read_mib_s": 77.5, "read_ms": 6.4, "read_p50_ms": 6.4,
        "over_volume_iops": 0.0, "over_instance_throughput": 0.99, "instance_byte_balance_percent": 0.0,
    }  # fmt: skip
    server = {"tps": 413.0, "pool_reads_per_s": 1_240.0, "data_read_bytes_per_s": 77.5 * 2**20}
    collected = evidence(AT_300 | volume, CLIENTS | server, storage="gp3:500:16000:1000", instance="m5.large")
    first = diagnose(collected, Counsel()).findings[0]
    assert (first.verdict, first.subject) == ("binds", "instance-credits")
    # Eight clients wait 6.4 ms three times a transaction and 0.3 ms else: without the limit far more.
    assert first.gain is not None and first.gain.transactions > 0.5, first.words
    assert "gives 77.5 MiB/s of 77.49 MiB/s" in first.words and first.remedies


def test_a_recording_is_described_by_the_options(tmp_path):
    """Options say what a recording does not know of its volumes; of the others they are not
    used."""
    file = tmp_path / "seen.jsonl.gz"
    evidence_file.save(evidence(AT_300, CLIENTS, storage=None), file)
    recorded = read_evidence(str(file), SourceOptions(storage=IO1))
    assert diagnose(recorded, Counsel()).findings[0].subject == "volume-iops"
    evidence_file.save(evidence(AT_300, CLIENTS, storage=IO1), file)
    recorded = read_evidence(str(file), SourceOptions(storage="gp3:500"))
    assert recorded.volumes[0].facts.storage == IO1 and any("gp3:500 was not used" in note for note in recorded.notes)
    packed = tmp_path / "iostat.txt.gz"
    packed.write_bytes(gzip.compress(b"Linux 6.1.0 (db1)\n"))
    with pytest.raises(InputError, match="gzip archive"):
        read_evidence(str(packed), SourceOptions())


def test_no_spending_for_little():
    """Clients that hardly wait: the gain is below 5 %, and nothing that costs money is advised."""
    # A tenth of the time in reads: at most 11 % more, and lifting the cap by itself brings less.
    volume = {"read_ms": 3.2, "read_p50_ms": 0.6, "over_volume_iops": 0.06}
    server = {"pool_reads_per_s": 262.0}
    diagnosis = diagnose(evidence(AT_300 | volume, CLIENTS | server, storage="io1:100:400"), Counsel())
    first = next(finding for finding in diagnosis.findings if finding.subject == "volume-iops")
    assert first.gain is not None and first.gain.transactions < Thresholds().advice_gain, first.gain
    assert "not worth money" in first.words and not first.remedies


def test_without_a_server_it_is_told_in_io():
    diagnosis = diagnose(evidence(AT_300, storage=IO1, with_server=False), Counsel())
    gain = diagnosis.findings[0].gain
    assert gain is not None and gain.transactions is None and gain.next_limit == "volume-throughput"


@pytest.mark.parametrize(("user", "system"), [(2.9, 0.4), (2.0, 0.3)])
def test_a_gain_is_bounded_by_the_processors(user, system):
    """Lifting brings no more transactions than the idle processors can run, though the volume alone would
    allow several times as many."""
    host = {"user_cpus": user, "system_cpus": system}
    gain = diagnose(evidence(AT_300, CLIENTS | {"server_cpus": 1.0}, host, storage=IO1), Counsel()).findings[0].gain
    assert gain is not None and gain.transactions is not None
    busy, server = (user + system) / 4, 0.25
    # Transactions can grow until all processors are at work: those at work now, up to three times
    # the server's part, or the server's part alone.
    assert gain.transactions <= (1 - busy) / min(busy, 3 * server) + 1e-9
    assert gain.high <= (1 - busy) / server + 1e-9
    free = diagnose(evidence(AT_300, CLIENTS, {"user_cpus": 0.1, "system_cpus": 0.02}, storage=IO1), Counsel())
    assert free.findings[0].gain.transactions > 1.0


def test_nothing_is_bought_for_a_server_whose_processors_are_spent():
    spent = {"user_cpus": 3.5, "system_cpus": 0.42}
    diagnosis = diagnose(evidence(AT_300, CLIENTS | {"server_cpus": 1.0}, spent, storage=IO1), Counsel())
    first = next(finding for finding in diagnosis.findings if finding.subject == "volume-iops")
    assert not first.remedies and first.gain.transactions is None
    assert "is not estimated: 98 % of the processors" in first.words and "processors bind" in first.words


def test_one_answer_does_not_say_that_storage_binds_and_keeps_up():
    spent = {"user_cpus": 3.5, "system_cpus": 0.42}
    diagnosis = diagnose(evidence(AT_300, CLIENTS | {"server_cpus": 1.0}, spent, storage=IO1), Counsel())
    words = " ".join(entry.words for entry in (*diagnosis.findings, *diagnosis.others))
    assert {finding.subject for finding in diagnosis.findings} >= {"volume-iops", "processors"}
    assert "keeps up" not in words and "nearly spent" in words
    alone = diagnose(evidence(None, {"server_cpus": 3.0}, spent, storage="gp3:500"), Counsel())
    assert alone.headline.startswith("The processors") and "Storage keeps up." in alone.headline
