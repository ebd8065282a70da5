"""The pure parts of backups: sealed documents, names, moments, the pace, retention."""

from __future__ import annotations

import contextlib
import random
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace

import pytest
from waiting import wait_until

from headrace.errors import CouldNotRun, InputError
from headrace.mysql.gtid import GtidSet
from headrace.servers.backup import manifest as documents
from headrace.servers.backup import restore
from headrace.servers.backup.forecast import estimate_volume_seconds
from headrace.servers.backup.history import archive, moments
from headrace.servers.backup.history import events as binlog
from headrace.servers.backup.manifest import Backup, Manifest, Packing, RestoreProof, open_document, seal_document
from headrace.servers.backup.pacing import PaceLimits, Pacer, PaceSignals, choose_rate, find_largest_lag_s
from headrace.servers.backup.retention import choose_guarded, plan
from headrace.servers.backup.targets import open_target
from headrace.servers.backup.targets.folder import FolderTarget
from headrace.servers.backup.targets.target import check_name
from headrace.servers.copies import folders, pipeline
from headrace.servers.copies.dump import read_dump_position
from headrace.servers.copies.pipeline import Flow, Stage, read_ahead
from headrace.servers.copies.position import BinlogPosition


@pytest.mark.parametrize("key", [None, bytes(32)])
def test_every_changed_bit_of_a_sealed_document_is_found(key):
    raw = seal_document({"name": "shop", "parts": [1, 2.5, None], "text": "é \\n"}, key)
    assert open_document(raw, "it", key)["name"] == "shop"
    for bit in range(8 * len(raw)):
        changed = bytearray(raw)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(InputError):
            open_document(bytes(changed), "it", key)
    for cut in range(len(raw)):
        with pytest.raises(InputError):
            open_document(raw[:cut], "it", key)


def test_a_document_of_another_key_is_refused():
    raw = seal_document({"a": 1}, bytes(32))
    for key, words in ((None, "sealed with a key"), (bytes([1] * 32), "another key")):
        with pytest.raises(InputError, match=words):
            open_document(raw, "it", key)
    with pytest.raises(InputError, match="anybody"):
        open_document(seal_document({"a": 1}), "it", bytes(32))


@pytest.mark.parametrize(
    "name", ["", "/x", "x/", "..", "a/../b", "a/./b", "a b", "a\nb", "a'b", 'a"b', "ä", ".hidden", "a//b", "x" * 201]
)
def test_names_that_could_lead_out_of_a_target_are_refused(name):
    with pytest.raises(InputError):
        check_name(name)


@pytest.mark.parametrize(
    "text",
    ["", "a\nb", "ftp://x/y", "file://relative", "file:///a/../b", "s3://", "s3://UPPER/x", "s3://b/x?secret=1",
     "s3://bucket/../x", "s3://bucket/a b", "s3://bucket/x?endpoint=http://db.example:9000", "s3://bucket?region=EU!"],
)  # fmt: skip
def test_what_cannot_be_a_target_is_refused(text):
    with pytest.raises(InputError):
        open_target(text)


def test_a_folder_never_overwrites_and_a_writer_that_is_left_is_not_seen(tmp_path):
    target = open_target(tmp_path / 'it\'s a "folder" with blanks')
    target.put_new("a/one", b"1")
    with pytest.raises(InputError, match="never overwritten"):
        target.put_new("a/one", b"2")
    with pytest.raises(ZeroDivisionError), target.create("a/two") as writer:
        writer.write(b"x" * (3 << 20))
        raise ZeroDivisionError
    first, second = target.create("a/three"), target.create("a/three")
    first.write(b"1")
    second.write(b"2")
    first.close()
    with pytest.raises(InputError, match="never overwritten"):
        second.close()
    assert [entry.name for entry in target.list()] == ["a/one", "a/three"]
    assert target.read_document("a/three") == b"1"
    assert not list(tmp_path.rglob("*.begun"))


def test_moments_have_a_time_zone():
    at = datetime(2026, 11, 22, 21, 50, 0, 250_000, UTC)
    timestamp = round(at.timestamp() * 1e6)
    for text in ("2026-11-22T21:50:00.25Z", "2026-11-22 22:50:00.250000+01:00", "2026-11-22T16:20:00.25-05:30"):
        assert moments.parse_moment(text) == timestamp
    for text in ("2026-11-22T21:50:00", "2026-10-25 02:30:00"):
        with pytest.raises(InputError, match="no time zone"):
            moments.parse_moment(text)
    for text in ("", "yesterday", "2026-13-01T00:00:00Z", "2026-11-22", "2026-11-22T25:00:00Z", "1795384788"):
        with pytest.raises(InputError):
            moments.parse_moment(text)
    rng = random.Random(14)
    for _ in range(200):
        zone = timezone(timedelta(minutes=rng.randrange(-14 * 60, 14 * 60, 15)))
        moment = datetime.fromtimestamp(rng.randrange(10**9, 2 * 10**9), zone).replace(microsecond=rng.randrange(10**6))
        assert moments.parse_moment(moment.isoformat()) == round(moment.timestamp() * 10**6)
        assert moments.parse_moment(moments.format_moment(moments.parse_moment(moment.isoformat()))) == round(
            moment.timestamp() * 10**6
        )


def test_sets_of_single_gtids_and_their_json():
    rng = random.Random(14)
    for flavor in ("mysql", "mariadb"):
        for _ in range(100):
            numbers = sorted(rng.sample(range(1, 40), rng.randrange(1, 20)))
            uuid = "f550e960-e6bf-11f1-b5f0-02fc00000001"
            gtids = [f"{uuid}:{n}" if flavor == "mysql" else f"3-7-{n}" for n in numbers]
            result = archive.make_set(gtids, flavor)
            assert result.count() == len(numbers)
            assert archive.decode_set(archive.encode_set(result), flavor) == result
            if flavor == "mysql":
                assert result == GtidSet.parse(",".join(gtids), "mysql")
            else:
                assert str(archive.as_position(result)) == f"3-7-{numbers[-1]}"


def test_the_name_behind_a_binary_log():
    assert binlog.make_next_name("binlog.000009") == "binlog.000010"
    assert binlog.make_next_name("a.b.999999") == "a.b.1000000"
    with pytest.raises(InputError):
        binlog.make_next_name("../binlog.1")


def test_a_source_is_read_ahead_in_order():
    """The reader takes as many pieces ahead as it may, no more; errors come where they were;
    nothing goes on behind one that stopped."""
    taken = []

    def source(count, error=None):
        for number in range(count):
            taken.append(number)
            yield bytes([number])
        if error is not None:
            raise error

    assert b"".join(read_ahead(source(200), 7)) == bytes(range(200))
    with pytest.raises(CouldNotRun):
        list(read_ahead(source(3, CouldNotRun("it", "failed")), 7))
    taken.clear()
    with contextlib.closing(read_ahead(source(200), 7)) as pieces:
        assert next(pieces) == b"\0"
        wait_until(lambda: len(taken) >= 9, "what is read ahead")
        time.sleep(0.05)
        assert len(taken) == 9, "one is out, seven wait, one is in the hand"
    time.sleep(0.3)
    assert len(taken) <= 10


# --- the pace -------------------------------------------------------------------------------------


def test_a_pace_never_takes_credits_below_the_floor():
    """A naive volume loses what the copy reads; whatever the load does beside it, the copy itself
    stops above the floor."""
    rng = random.Random(14)
    limits = PaceLimits(credit_floor_percent=20.0)
    for _ in range(200):
        # Percent lost for each MiB: half a second at full pace costs at most the guard.
        credit, rate, cost = rng.uniform(20, 40), 100.0, rng.uniform(0.0, 0.5 / 0.5 / 100.0)
        for _ in range(500):
            rate, why = choose_rate(rate, 100.0, limits, PaceSignals(credit_percent=credit))
            before, credit = credit, credit - rate * 0.5 * cost
            assert credit >= 20.0 or rate == 0.0, (before, rate)
            assert rate == 0.0 or credit > 20.0
            assert why in ("cap", "credits", "rising")
            credit += rng.uniform(0, 0.01)


def test_lag_and_latency_slow_a_copy_down_and_it_recovers():
    limits = PaceLimits(lag_s=5.0, latency_ratio=1.2)
    rate, why = choose_rate(100.0, 125.0, limits, PaceSignals(lag_s=6.0))
    assert (rate, why) == (70.0, "lag")
    assert choose_rate(100.0, 125.0, limits, PaceSignals(latency_ratio=1.3)) == (70.0, "latency")
    assert choose_rate(1.0, 125.0, limits, PaceSignals(latency_ratio=9.9)) == (1.0, "latency")
    # A channel that is stopped tells no lag, whatever the others tell.
    for behind_s, why in (([0, None], "lag"), ([None], "lag"), ([0, 6], "lag"), ([0, 5], "rising"), ([], "rising")):
        assert choose_rate(1.0, 125.0, limits, PaceSignals(lag_s=find_largest_lag_s(behind_s)))[1] == why
    rate = 1.0
    for _ in range(20):  # 5 % of the cap a step
        rate, _ = choose_rate(rate, 125.0, limits, PaceSignals(lag_s=0.0, latency_ratio=1.0))
    assert rate == 125.0


def test_a_pace_is_above_what_the_load_takes_for_a_small_part_of_the_time():
    """A load whose latency rises where the copy takes more than a level that is not known; it shows
    two looks later. Then the level rises, and the copy follows."""
    rng = random.Random(14)
    for _ in range(20):
        level = rng.uniform(15.0, 110.0)
        seen = [PaceSignals(latency_ratio=1.0)] * 3
        pacer = Pacer(PaceLimits(latency_ratio=1.2), 125.0, lambda seen=seen: seen[-3])
        above, copied = 0, 0.0
        for look in range(1400):
            pacer._adjust(look / 2)
            seen.append(PaceSignals(latency_ratio=1.5 if pacer.rate > level and look < 1000 else 1.0))
            if 200 <= look < 1000:
                above += pacer.rate > level
                copied += pacer.rate
        assert above / 800 <= 0.06 and copied / 800 >= 0.75 * level, (level, above, copied / 800)
        assert pacer.rate == 125.0, "nothing is in its way any more"


@pytest.mark.parametrize(
    "wrong",
    [{"share": 0.0}, {"share": 1.1}, {"share": float("nan")}, {"mib_s": -1.0}, {"credit_floor_percent": 100.0},
     {"lag_s": float("inf")}, {"latency_ratio": 0.9}, {"latency_ratio": 1.0}],
)  # fmt: skip
def test_limits_that_make_no_sense_are_refused(wrong):
    with pytest.raises(InputError):
        PaceLimits(**wrong)


def test_a_held_copy_is_let_go():
    """With its credits used up a copy stands still, until the server is held up for it."""
    pacer = Pacer(PaceLimits(credit_floor_percent=50.0), 100.0, lambda: PaceSignals(credit_percent=40.0))
    with pacer:
        assert (pacer.rate, pacer.why) == (0.0, "credits")
        pacer.free()
        pacer.keep_pace(1 << 30)


def test_forecasts_are_the_simulators():
    """st1: 500 GiB has a baseline of 20 MiB/s once its credits are used up (40 MiB/s per TiB), so
    100 GiB take 5,120 s with none; rounding of MiB/s and 1 MiB requests: within 3 %. gp3: 125 MiB/s."""
    gib = 1 << 30
    assert estimate_volume_seconds("st1:500", 100 * gib, True, 0.0) == pytest.approx(5_120, rel=0.03)
    assert estimate_volume_seconds("gp3:100", 10 * gib, False, None) == pytest.approx(10_240 / 125, rel=0.03)
    # Half of it taken by the load: twice the time.
    half = estimate_volume_seconds("gp3:100", 10 * gib, False, None, taken_mib_s=62.5)
    assert half == pytest.approx(2 * 10_240 / 125, rel=0.05)


# --- retention ------------------------------------------------------------------------------------


def make_backup(number: int, source: str, age_days: float, proved: bool | None, now: float) -> Backup:
    at = now - age_days * 86_400
    backup = f"20261122T{number:06d}Z-{source}-00aa"
    manifest = Manifest(
        backup, "physical", "mysql", "9.7.4", "InnoDB", source, source, at, at, BinlogPosition("", "", 0),
        Packing("tar", "none", False), 1, (),
    )  # fmt: skip
    proof = None if proved is None else RestoreProof(at, 1.0, "", 1, "", "", proved)
    return Backup(manifest, proof)


def test_retention_keeps_a_provable_chain_whatever_the_rule():
    """Random backups and rules against what must hold: all are kept or removed, nothing that a rule
    keeps is removed, and of each source the newest proved one stays, or without one the newest that
    has not failed. A failed one takes no good one's place."""
    rng, now = random.Random(14), 1_795_384_788.0
    for _ in range(300):
        result = [
            make_backup(number, rng.choice(["a", "b"]), 40 - number, rng.choice([None, None, True, False]), now)
            for number in range(rng.randrange(0, 30))
        ]
        count, days = rng.choice([None, 1, 3]), rng.choice([None, 0.0, 15.0])
        if count is None and days is None:
            count = 1
        expected = plan(result, [], now, count, days)
        ids, gone = {entry.id for entry, _ in expected.keep}, {entry.id for entry, _ in expected.remove}
        assert ids | gone == {entry.id for entry in result} and not ids & gone
        for source in ("a", "b"):
            mine = sorted((entry for entry in result if entry.manifest.source == source), key=lambda entry: entry.id)
            if not mine:
                continue
            proved = [entry for entry in mine if entry.proof is not None and entry.proof.ok]
            good = [entry for entry in mine if entry.proof is None or entry.proof.ok]
            assert (proved or good or mine)[-1].id in ids
            assert choose_guarded(mine, []) is (proved or good or mine)[-1]
            for member in [*mine[-(count or 0) :], *good[-(count or 0) :]] if count else []:
                assert member.id in ids
            for member in mine:
                assert days is None or member.compute_age_s(now) >= days * 86_400 or member.id in ids
    for rule in ((None, None), (0, None), (None, -1.0)):
        with pytest.raises(InputError):
            plan([], [], now, *rule)


def test_a_part_of_a_server_takes_no_whole_backups_place():
    """A newer dump of one database, proved: the whole backup stays, and so does the part."""
    now = 1_795_384_788.0
    whole, part = make_backup(1, "a", 9.0, True, now), make_backup(2, "a", 1.0, True, now)
    part = replace(part, manifest=part.manifest.with_(only=("ack",), databases=("ack",)))
    assert not plan([whole, part], [], now, 1, None).remove


def test_a_backup_whose_restore_failed_is_not_kept_instead_of_a_good_one():
    """The proof of the older one was undone by a restore that failed: the good one beside it stays,
    and where only failed ones are left the newest of them."""
    now = 1_795_384_788.0
    failed, good, newest = (
        make_backup(1, "a", 9.0, False, now),
        make_backup(2, "a", 5.0, None, now),
        make_backup(3, "a", 1.0, False, now),
    )
    whies = {entry.id: why for entry, why in plan([failed, good, newest], [], now, 1, None).keep}
    assert good.id in whies and failed.id not in whies and "last restore failed" in whies[newest.id]
    assert choose_guarded([failed, newest], []) is newest
    assert "take another" in dict((entry.id, why) for entry, why in plan([failed], [], now, None, 1.0).keep)[failed.id]


def test_ids_sort_by_time_and_hold_no_paths():
    names = [folders.make_id(name, 1_795_384_788.0 + place) for place, name in enumerate(("a b", "../x", "", "É'\"\n"))]
    assert names == sorted(names) and all(folders.ID.fullmatch(name) for name in names)
    with pytest.raises(InputError):
        documents.get_backup_folder("../../etc")


def test_servers_of_mariadb_with_one_id_keep_a_chain_each():
    """server_id 1 is what most of them have: by it alone the second's only backup would go."""
    now = 1_795_384_788.0
    result = [
        replace(entry, manifest=entry.manifest.with_(flavor="mariadb", source_id="server-1", source=name))
        for name in ("shop", "till")
        for entry in [make_backup(14 if name == "shop" else 1, name, 3.0, None, now)]
    ]
    expected = plan(result, [], now, 1, None)
    assert not expected.remove and len(expected.keep) == 2
    assert choose_guarded(result[1:], []) is result[1]


def test_the_position_of_a_dump_is_found_at_both_ends():
    """mariadb-dump 10.11.19 writes the GTID behind the tables; a row cannot pass for it."""
    head = b"-- MariaDB dump\n-- CHANGE MASTER TO MASTER_LOG_FILE='b.000003', MASTER_LOG_POS=334;\nCREATE TABLE `t`"
    row = rb"INSERT INTO t VALUES ('\n-- SET GLOBAL gtid_slave_pos=\'9-9-9\';');" + b"\n"
    tail = row + b"-- The deferred gtid setting\n-- SET GLOBAL gtid_slave_pos='0-7-13';\n-- Dump completed\n"
    assert read_dump_position(head, tail, "mariadb", True) == BinlogPosition("0-7-13", "b.000003", 334)
    early = head.replace(b"CREATE", b"-- SET GLOBAL gtid_slave_pos='0-7-12';\nCREATE")
    assert read_dump_position(early, row, "mariadb", True).gtid == "0-7-12"
    with pytest.raises(CouldNotRun, match="no binary log position"):
        read_dump_position(head, row, "mariadb", True)
    mysql = b"-- GTID state\n/* SET @@GLOBAL.GTID_PURGED='+f550e960-e6bf-11f1-b5f0-02fc00000001:1-5,\nf550e960-e6bf-11f1-b5f0-02fc00000002:1-3';*/\n-- CHANGE REPLICATION SOURCE TO SOURCE_LOG_FILE='b.000003', SOURCE_LOG_POS=9;\n"
    position = read_dump_position(mysql, b"", "mysql", True)
    assert (position.file, position.offset, position.gtid.count(":")) == ("b.000003", 9, 2)
    assert read_dump_position(b"", b"", "mariadb", False) == BinlogPosition()


def test_a_target_whose_volume_was_unmounted_takes_nothing(tmp_path, monkeypatch):
    """The target's empty mount point is still there: what is written there would fill the machine's
    disk."""
    target = open_target(tmp_path / "t")
    target.put_new("a/one", b"1")
    writer = target.create("a/two")
    monkeypatch.setattr(FolderTarget, "_find_device", lambda self: -1)
    for work in (
        writer.close,
        lambda: target.put_new("a/three", b"3"),
        lambda: target.replace("a/proof", b"3"),
        target.list,
    ):
        with pytest.raises(CouldNotRun, match="another filesystem"):
            work()
    monkeypatch.undo()
    assert [entry.name for entry in target.list()] == ["a/one"]


def test_snapshots_of_two_volumes_are_told_apart():
    """By their roles, not by their order: ids are sorted when a manifest is written."""
    two = make_backup(1, "a", 1.0, None, 2e9).manifest.with_(
        method="snapshot", snapshots={"vol-1": "snap-1", "vol-2": "snap-2"}
    )
    facts = {"roles": {"data": "vol-2", "log": "vol-1"}, "log_storage": "gp3:2"}
    request = restore.RestoreRequest(two.id, "b", "gp3:4")
    assert restore.make_seeds(two.with_(facts=facts), request) == {
        "seed_from": "snap-2", "log_seed_from": "snap-1", "log_storage": "gp3:2",
    }  # fmt: skip
    for wrong in ({}, {"roles": {"data": "vol-2"}}, {"roles": {"data": "vol-2", "log": "vol-3"}}):
        with pytest.raises(InputError, match="does not say which has the data"):
            restore.make_seeds(two.with_(facts=wrong), request)
    with pytest.raises(InputError, match="--log-storage") as refusal:
        restore.make_seeds(two.with_(facts={"roles": facts["roles"]}), request)
    assert "volume of their own" in refusal.value.rule


def test_a_backup_of_another_version_is_refused(monkeypatch):
    for version, method, words in (
        ((9, 6, 0), "physical", "this server is another MySQL"),
        ((9, 8, 0), "snapshot", "this server is another MySQL"),
        ((9, 6, 0), "logical", "newer than this server"),
    ):
        program = SimpleNamespace(flavor="mysql", version=version, path="/usr/sbin/mysqld", label="another MySQL")
        monkeypatch.setattr(restore, "find_program", lambda *_, program=program: program)
        with pytest.raises(InputError, match=words) as refusal:
            restore.check_fit(make_backup(1, "a", 1.0, None, 2e9).manifest.with_(method=method))
        assert "9.7.4" in refusal.value.rule


def test_staging_folders_of_killed_runs_are_removed(tmp_path):
    """Each is a whole copy of the data, on the source's own volume. One in use stays."""
    mine, dead = (tmp_path / f"headrace-20261122T00000{n}Z-a-00aa" for n in (1, 2))
    for entry in (mine, dead):
        (entry / "data").mkdir(parents=True)
    dead.with_name(f"{dead.name}.lock").touch()
    with folders.hold_folder(mine):
        assert mine.exists() and not dead.exists()
        with folders.hold_folder(tmp_path / "headrace-20261122T000003Z-a-00aa"):
            assert mine.exists(), "another run does not remove it"
    assert not list(tmp_path.iterdir())


def test_a_program_that_is_fed_may_work_on_and_that_of_a_copy_may_not(monkeypatch):
    """A client that loads a dump has statements left when all bytes are written; a program whose output has ended has
    none."""
    monkeypatch.setattr(pipeline, "END_S", 0.5)
    slow = Stage(("sh", "-c", "cat > /dev/null; sleep 1.5"), "the client")
    with Flow([Stage(("cat",), "cat"), slow]) as flow:
        flow.feed([b"x" * 1000])
    stuck = Stage(("sh", "-c", "exec >&-; sleep 60"), "the dump")
    with pytest.raises(CouldNotRun, match="the dump: does not end within 0.5 s"), Flow([stuck]) as flow:
        list(flow.read_pieces())
    failing = Stage(("sh", "-c", "cat > /dev/null; sleep 1.5; echo its reason >&2; exit 3"), "the client")
    with pytest.raises(CouldNotRun, match="its reason"), Flow([failing]) as flow:
        flow.feed([b"x"])
