"""Snapshot sets read from tags: against a naive reference, with random damage."""

from __future__ import annotations

import json
import random
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.cli.lab import snapshot as snapshot_commands
from headrace.errors import CouldNotRun, InputError
from headrace.mysql import Address
from headrace.operate.snapshots import ec2, retention, services, sets, take, targets
from headrace.operate.snapshots.services import MemberVolume
from headrace.operate.snapshots.sets import StoredSnapshot
from headrace.operate.snapshots.take import CreateCall, SnapshotRequest, SnapshotScope, _run_steps
from headrace.servers.copies.locks import ServerFacts

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def make_snapshots(
    name: str, volumes: list[str], at: datetime, state: str = "completed", **tags: str
) -> list[StoredSnapshot]:
    """A set as `take` tags it."""
    common = {sets.SET: name, sets.SERVER: "db", sets.FINISHED: "x", sets.STEPS: "lock freeze", sets.FROZEN: "50.0"}
    common |= sets.make_long_tags(sets.VOLUMES, ",".join(volumes)) | tags
    return [StoredSnapshot(f"snap-{name}-{volume}", volume, 1, state, at.isoformat(), common) for volume in volumes]


def test_a_whole_set():
    gtid = ",".join(f"{number:08x}-0000-0000-0000-000000000000:1-{number}" for number in range(1, 30))
    volumes = [f"vol-{number:017x}" for number in range(20)]
    [entry] = sets.build_sets(make_snapshots("set-a", volumes, NOW, **sets.make_long_tags(sets.GTID, gtid)))
    assert entry.whole and entry.gtid == gtid and entry.frozen_ms == 50 and entry.steps == ("lock", "freeze")
    assert len(entry.snapshots) == 20 and entry.size_gib == 20 and entry.stored


def test_no_tag_is_too_long():
    tags = sets.make_long_tags("k", "x" * 2_000)
    assert max(map(len, tags.values())) == 256 and "".join(tags.values()) == "x" * 2_000
    assert not sets.fits("x" * 10_000)
    with pytest.raises(InputError, match="10,000 characters"):
        sets.make_long_tags("k", "x" * 10_000)
    assert sets.as_json("a\n'\"é") == '"a\\n\'\\"\\u00e9"'


class SlowList:
    """Snapshots of an EC2 that lists them and their tags only at the third look. `error`: what its call ends with."""

    listed_within_s, look_every_s = 60.0, 0.0
    error: Exception | None = None

    def __init__(self, volumes: list[str]) -> None:
        self.snapshots = [StoredSnapshot(f"snap-{volume}", volume, 1, "pending", NOW.isoformat()) for volume in volumes]
        self.tags: dict[str, dict[str, str]] = {snapshot.id: {} for snapshot in self.snapshots}
        self.looks = 0

    def create(self, volumes, tags, description, token):
        for own in self.tags.values():
            own |= tags
        if self.error is not None:
            raise self.error
        return self.snapshots

    def delete(self, name):
        self.snapshots = [snapshot for snapshot in self.snapshots if snapshot.id != name]

    def tag(self, snapshots, tags):
        for name in snapshots:
            self.tags[name] |= tags

    def list_stored(self):
        self.looks += 1
        seen = self.snapshots if self.looks > 2 else self.snapshots[: self.looks - 1]
        return [replace(snapshot, state="completed", tags=self.tags[snapshot.id]) for snapshot in seen]


def test_a_set_that_is_not_listed_yet_was_taken_and_is_waited_for(monkeypatch):
    volumes = ["vol-0", "vol-1"]
    service: Any = SlowList(volumes)
    request = SnapshotRequest("db", Address("u", "db.example"), service, lock=False, freeze=False)
    facts = ServerFacts("mysql", "9.7.0", (9, 7, 0), "db.example", "a-b", 1, "", "/data", ("/data",), ())
    members = tuple((MemberVolume(name, "gp3:1"), {"place": "/data", "kind": "xfs"}) for name in volumes)
    lock: Any = SimpleNamespace(held_ms=0.0, waited_ms=0.0)
    prepared, call = SnapshotScope(facts, (), members), CreateCall("set-a")
    taken = _run_steps(request, prepared, lock, call, lambda step: None).snapshot_set
    assert taken.whole and taken.id == "set-a" and not taken.stored
    assert [snapshot.member["place"] for snapshot in taken.snapshots] == ["/data", "/data"]
    monkeypatch.setattr(services, "LOOK_EVERY_S", 0.0)
    snapshot_commands.wait_for_set(service, taken, lambda share: None)
    [listed] = sets.build_sets(service.list_stored())
    assert listed.stored and replace(listed, snapshots=()) == replace(taken, snapshots=())
    service.snapshots.pop()
    service.listed_within_s = 0.0
    with pytest.raises(CouldNotRun, match="could not be stored"):
        snapshot_commands.wait_for_set(service, taken, lambda share: None)


@pytest.mark.parametrize(
    ("error", "listed_within_s", "remaining", "hint"),
    [
        # The answer is lost, and the snapshots are listed at the third look; or not in time.
        (CouldNotRun("EC2", "no answer"), 60.0, 0, ""),
        (CouldNotRun("EC2", "no answer"), 1e-9, 1, "sets shows set-a later"),
        (InputError("EC2", "UnauthorizedOperation"), 60.0, 2, ""),
    ],
)
def test_a_set_whose_call_failed_is_deleted_once_it_is_listed(monkeypatch, error, listed_within_s, remaining, hint):
    monkeypatch.setattr(take, "LOOK_EVERY_S", 0.0)
    service: Any = SlowList(["vol-0", "vol-1"])
    service.error, service.listed_within_s = error, listed_within_s
    request = SnapshotRequest("db", Address("u", "db.example"), service)
    members = tuple((MemberVolume(name, "gp3:1"), {}) for name in ("vol-0", "vol-1"))
    call, facts = CreateCall("set-a"), ServerFacts("mysql", "9.7.0", (9, 7, 0), "db", "", 1, "", "/", ("/",), ())
    with pytest.raises(type(error)):
        take._create(request, SnapshotScope(facts, (), members), call, {sets.SET: "set-a"})
    words = take._delete_begun(service, call)
    assert len(service.snapshots) == remaining and (hint in words if hint else not words)


@pytest.mark.parametrize(("status", "kind"), [(400, InputError), (503, CouldNotRun)])
def test_an_error_of_aws_itself_is_no_refusal(monkeypatch, status, kind):
    """After the second the call may have been carried out."""

    def create_tags(**_: object) -> None:
        answer: Any = {"Error": {"Code": "Sorry"}, "ResponseMetadata": {"HTTPStatusCode": status}}
        raise ClientError(answer, "CreateTags")

    monkeypatch.setattr(ec2, "_open_clients", lambda *_: (SimpleNamespace(create_tags=create_tags), None))
    with pytest.raises(kind, match="Sorry") as caught:
        ec2.Ec2Service().tag(["snap-1"], {})
    assert caught.value.kind == "Sorry"


DAMAGE = ("none", "missing", "later", "foreign", "twice", "unfinished", "error", "contradiction", "no list")


@pytest.mark.parametrize("seed", range(30))
def test_random_damage_is_seen(seed):
    """A set is whole if and only if nothing was done to it."""
    chance = random.Random(seed)
    volumes = [f"vol-{number}" for number in range(chance.randint(2, 6))]
    snapshots = make_snapshots("set-a", volumes, NOW)
    damage = DAMAGE[seed % len(DAMAGE)]
    victim = chance.randrange(len(snapshots))
    snapshot = snapshots[victim]
    late = (NOW + timedelta(seconds=chance.uniform(2, 1e6))).isoformat()

    def like(**changes) -> StoredSnapshot:
        fields = {name: getattr(snapshot, name) for name in ("id", "volume", "size_gib", "state", "started_at", "tags")}
        return StoredSnapshot(**(fields | changes))

    match damage:
        case "missing":
            del snapshots[victim]
        case "later":
            snapshots[victim] = like(started_at=late)
        case "foreign":
            snapshots[victim] = like(volume="vol-other")
        case "twice":
            snapshots.append(like(id="snap-second"))
        case "unfinished":
            snapshots[victim] = like(tags={key: value for key, value in snapshot.tags.items() if key != sets.FINISHED})
        case "error":
            snapshots[victim] = like(state="error")
        case "contradiction":
            snapshots[victim] = like(tags={**snapshot.tags, sets.POSITION: "binlog.9:9"})
        case "no list":
            snapshots = [StoredSnapshot(each.id, each.volume, 1, each.state, each.started_at, {sets.SET: "set-a", sets.FINISHED: "x"}) for each in snapshots]  # fmt: skip
    chance.shuffle(snapshots)
    [read] = sets.build_sets(snapshots)
    assert read.whole == (damage == "none"), (damage, read.problems)
    if damage != "none":
        with pytest.raises(InputError):
            sets.check_whole(read)


@pytest.mark.parametrize("seed", range(20))
def test_copies_with_the_tags_of_a_set_are_no_damage_and_are_not_pruned(seed):
    """In the same region, next to some originals, and in another one, where there is nothing else."""
    chance = random.Random(seed)
    snapshots, originals = list[StoredSnapshot](), set[str]()
    for number in range(chance.randint(2, 8)):
        taken = make_snapshots(f"set-{number}", ["vol-1", "vol-2"], NOW - timedelta(days=number))
        late = (NOW - timedelta(days=number, hours=-1)).isoformat()
        copies = [replace(each, id=f"copy-{each.id}", volume="", started_at=late, copy=True) for each in taken]
        if number == 0 or chance.random() < 0.5:
            originals.add(f"set-{number}")
            snapshots += taken
        snapshots += chance.sample(copies, chance.randint(1, 2))
    chance.shuffle(snapshots)
    result = sets.build_sets(snapshots)
    assert {entry.id for entry in result if entry.whole} == originals
    assert sets.choose_set(result, "latest").id == "set-0"
    going = [verdict.chosen for verdict in retention.judge(result, NOW, 1, None) if verdict.goes]
    assert {entry.id for entry in going} == originals - {"set-0"}
    assert not any(snapshot.copy for entry in going for snapshot in entry.snapshots)


def test_ec2_and_the_lab_tell_copies_by_their_volume_and_source():
    described = {"SnapshotId": "snap-1", "VolumeSize": 1, "State": "completed", "StartTime": NOW}
    for volume, is_copy in (("vol-0123456789abcdef0", False), ("vol-ffffffff", True)):
        assert ec2._parse_snapshot(described | {"VolumeId": volume}).copy == is_copy
    entry: Any = {"id": "snap-1", "size_gib": 1, "state": "completed", "started_at": NOW.isoformat(), "tags": {}}
    for source, volume in (("volume", "vol-1"), ("copy", None), ("direct", None)):
        assert services._parse_snapshot(entry | {"source": source, "volume": volume}).copy == (volume is None)


def test_tags_that_mean_nothing():
    """Tags of a user, or of a newer version: nothing fails, and nothing is believed."""
    odd = {sets.SET: "set-x", sets.ABOUT: "{not json", sets.FROZEN: "soon", sets.MEMBER: "[1]"}
    [entry] = sets.build_sets([StoredSnapshot("snap-1", "", 1, "completed", NOW.isoformat(), odd)])
    assert not entry.whole and entry.about == {} and entry.frozen_ms is None and entry.snapshots[0].member == {}


def test_the_latest():
    old, new = make_snapshots("set-old", ["vol-1"], NOW - timedelta(days=1)), make_snapshots("set-new", ["vol-1"], NOW)
    broken = make_snapshots("set-broken", ["vol-1", "vol-2"], NOW + timedelta(days=1))[:1]
    result = sets.build_sets([*broken, *new, *old])
    assert [entry.id for entry in result] == ["set-old", "set-new", "set-broken"]
    assert sets.choose_set(result, "latest").id == sets.choose_set(result, "latest:db").id == "set-new"
    assert sets.choose_set(result, "set-old").id == "set-old"
    for name in ("latest:other", "set-nothing", ""):
        with pytest.raises(InputError):
            sets.choose_set(result, name)


@pytest.mark.parametrize("seed", range(40))
def test_pruning_against_a_naive_reference(seed):
    """Random sets, kept by count and age: never the last whole one, and nothing that was to be
    kept."""
    chance = random.Random(seed)
    snapshots, ages, whole, pending = [], {}, {}, {}
    for number in range(chance.randint(1, 12)):
        name, age = f"set-{number}", chance.uniform(0, 30 * 86_400)
        whole[name], pending[name] = chance.random() < 0.7, chance.random() < 0.2
        result = make_snapshots(
            name, ["vol-1", "vol-2"], NOW - timedelta(seconds=age), "pending" if pending[name] else "completed"
        )
        snapshots += result if whole[name] else result[:1]
        ages[name] = age
    keep = chance.choice([None, 1, 3])
    keep_for = chance.choice([None, 5 * 86_400.0]) if keep else 5 * 86_400.0
    verdicts = retention.judge(sets.build_sets(snapshots), NOW, keep, keep_for)
    going = {verdict.chosen.id for verdict in verdicts if verdict.goes}
    good = sorted((name for name in ages if whole[name]), key=lambda name: ages[name])
    stored = [name for name in good if not pending[name]]
    for place, name in enumerate(good):
        retained = (keep is not None and place < keep) or (keep_for is not None and ages[name] < keep_for)
        newest = not stored or ages[name] <= ages[stored[0]]
        assert (name in going) == (not retained and not newest), name
    for name in ages:
        if not whole[name]:
            assert (name in going) == (ages[name] >= retention.BEING_TAKEN_S)


def test_pruning_deletes_the_oldest_first_and_never_all():
    result = sets.build_sets(
        make_snapshots("set-a", ["vol-1"], NOW) + make_snapshots("set-b", ["vol-1"], NOW - timedelta(days=2))
    )
    verdicts = retention.judge(result, NOW, 1, None)
    deleted = []

    class Service:
        def delete(self, snapshot: str) -> None:
            deleted.append(snapshot)

    assert retention.prune(Service(), verdicts) == {} and deleted == ["snap-set-b-vol-1"]  # type: ignore[arg-type]
    with pytest.raises(CouldNotRun, match="last whole set"):
        retention.prune(Service(), [replace(verdict, goes=True) for verdict in verdicts])  # type: ignore[arg-type]
    assert len(deleted) == 1
    with pytest.raises(InputError, match="was not said"):
        retention.judge(result, NOW, None, None)


class LockedSnapshots:
    """A service with sets, of which it does not delete the snapshots `locked`."""

    def __init__(self, snapshots: list[StoredSnapshot], locked: set[str]) -> None:
        self.snapshots, self.locked = snapshots, locked

    def list_stored(self) -> list[StoredSnapshot]:
        return list(self.snapshots)

    def get_time(self) -> datetime:
        return NOW

    def delete(self, name: str) -> None:
        if name in self.locked:
            raise InputError(name, "SnapshotLocked", "EC2")
        self.snapshots = [snapshot for snapshot in self.snapshots if snapshot.id != name]


@pytest.mark.parametrize("seed", range(20))
def test_locked_snapshots_keep_no_other_set_from_being_pruned(capsys, seed):
    """Random sets of some servers, some of them locked: all others go, and the answer says which stay."""
    chance = random.Random(seed)
    snapshots, going, locked = list[StoredSnapshot](), set[str](), set[str]()
    for server in "abc":
        for number in range(chance.randint(1, 4)):
            name = f"set-{server}-{number}"
            snapshots += make_snapshots(name, ["vol-1"], NOW - timedelta(days=number), **{sets.SERVER: server})
            if number > 0:
                (locked if chance.random() < 0.3 else going).add(name)
    service = LockedSnapshots(snapshots, {f"snap-{name}-vol-1" for name in locked})
    place: Any = None
    options: Any = SimpleNamespace(open=lambda place: nullcontext(service))
    everything = {snapshot.tags[sets.SET] for snapshot in snapshots}
    with pytest.raises(CouldNotRun, match="SnapshotLocked") if locked else nullcontext():
        snapshot_commands.prune(place=place, ec2=options, keep=1, yes=True, output="json")
    assert {snapshot.tags[sets.SET] for snapshot in service.snapshots} == everything - going
    rows = {row["id"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows.keys() == everything and {name for name, row in rows.items() if row["goes"]} == going
    assert {name for name, row in rows.items() if "not deleted" in row["why"]} == locked


def make_sets_of_two_places(on_ec2: bool) -> list[StoredSnapshot]:
    """Returns six sets of one name, of volumes at two mount points by turns, the newest first."""
    snapshots = list[StoredSnapshot]()
    for number in range(6):
        tags = {
            sets.MEMBER: json.dumps({"place": f"/srv/db{number % 2}"}),
            sets.ABOUT: json.dumps({"ec2" if on_ec2 else "lab": True}),
        }
        snapshots += make_snapshots(f"set-{number}", ["vol-1"], NOW - timedelta(days=number), **tags)
    return snapshots


@pytest.mark.parametrize("on_ec2", [True, False])
def test_two_servers_of_one_instance_without_names_are_pruned_apart(capsys, on_ec2):
    """Both have the instance's name, and each keeps its newest set; a server of the lab is told by its name alone."""
    service = LockedSnapshots(make_sets_of_two_places(on_ec2), set())
    place: Any = None
    options: Any = SimpleNamespace(open=lambda place: nullcontext(service))
    snapshot_commands.prune(place=place, ec2=options, keep=1, yes=True, output="json")
    assert json.loads(capsys.readouterr().out)
    remaining = {snapshot.tags[sets.SET] for snapshot in service.snapshots}
    assert remaining == ({"set-0", "set-1"} if on_ec2 else {"set-0"})


def test_a_name_of_two_servers_of_one_instance_chooses_no_set():
    """The newest of both would be restored, whichever server was meant; a set by its id is clear, and so is `latest`."""
    result = sets.build_sets(make_sets_of_two_places(on_ec2=True))
    server = result[0].server
    with pytest.raises(InputError, match="2 servers.*: /srv/db0; /srv/db1"):
        sets.choose_set(result, f"latest:{server}")
    assert sets.choose_set(result, "set-3").id == "set-3" and sets.choose_set(result, "latest").id == "set-0"
    on_lab = sets.build_sets(make_sets_of_two_places(on_ec2=False))
    assert sets.choose_set(on_lab, f"latest:{server}").id == "set-0"


def test_a_restored_server_has_all_settings_but_secrets():
    plain = {
        "key-buffer-size": "64M",
        "innodb-ft-min-token-size": "2",
        "sql-require-primary-key": "ON",
        "skip-foreign-key-checks": None,
        "innodb-io-capacity": "2000",
    }
    secret = {
        "ssl-key": "/etc/mysql/server.pem",
        "hashicorp-key-management-token": "hvs.CAESIJ",
        "file-key-management-filekey": "12345678",
        "report-password": "12345678",
        "keyring-hashicorp-secret-id": "7",
    }
    volumes = SimpleNamespace(data="vol-1", log=None)
    server: Any = SimpleNamespace(
        volumes=volumes,
        settings=plain | secret,
        engine=None,
        storage="gp3:1",
        log_storage=None,
        memory_gib=1.0,
        config="default",
    )
    assert targets.describe_server(server)["settings"] == plain


def test_units_of_systemd():
    texts = retention.build_units("shop", ["/usr/bin/python3", "-m", "headrace"], ["snapshot", "take", 'a "b" $c %d'], None, 3600)  # fmt: skip
    service, timer = (texts[f"headrace-snapshot-shop.{kind}"] for kind in ("service", "timer"))
    assert 'ExecStart=/usr/bin/python3 -m headrace snapshot take "a \\"b\\" $$c %%d"\n' in service
    assert "KillMode=process" in service and "OnUnitActiveSec=3600" in timer
    for name, words, every in (("../x", ["a"], 3600), ("x", ["a\nb"], 3600), ("x", ["a"], 1)):
        with pytest.raises(InputError):
            retention.build_units(name, ["headrace"], words, None, every)
