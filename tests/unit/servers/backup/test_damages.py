"""An archive that is damaged anywhere: a restore takes all there was, or refuses and names the damage.

DAMAGES: how many damages of each archive, 12 by default (`make soak`: 200).
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
from damaged_archives import KINDS, damage, damages
from made_histories import BEGAN, LogFile, base_of, keep, replayed

from headrace.errors import InputError
from headrace.mysql.gtid import GtidSet
from headrace.servers.backup import checking
from headrace.servers.backup.history import archive, moments
from headrace.servers.backup.history.moments import RestoreGoal
from headrace.servers.backup.manifest import Backup
from headrace.servers.backup.retention import is_chain_whole
from headrace.servers.backup.targets.folder import FolderTarget

DAMAGES = int(os.environ.get("DAMAGES", "12"))
LAST = 30
A = "aaaaaaaa-0000-4000-8000-000000000001"


def history(flavor: str, folder: Path) -> tuple[FolderTarget, list[str]]:
    """Three files of ten transactions, a piece for each of them; the last file goes on."""
    name = (lambda n: f"{A}:{n}") if flavor == "mysql" else (lambda n: f"0-1-{n}")
    span = (lambda n: f"{A}:1-{n}" if n else "") if flavor == "mysql" else (lambda n: f"0-1-{n}" if n else "")
    target, files, places = FolderTarget(folder), [], []
    for number in range(3):
        file = LogFile(flavor, span(10 * number))
        mine = [len(file.raw)]
        for place in range(1, 11):
            file.commit(name(10 * number + place), BEGAN + 10 * number + place)
            mine.append(len(file.raw))
        if number < 2:
            file.rotate(f"binlog.{number + 2:06d}")
        files.append(file)
        places.append(mine)
    server = A if flavor == "mysql" else "server-1"
    keep(target, f"{archive.make_stem('shop', server)}-1", "shop", server, files, None, places)
    return target, [name(n) for n in range(1, LAST + 1)]


def collected(target, base, folder: Path, goal: RestoreGoal):
    folder.mkdir()
    at = GtidSet.parse(base.position.gtid, base.flavor)
    chain = moments.choose(archive.read_timelines(target), base, at, None, goal)
    return moments.collect(target, chain, at, goal, folder)


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_every_damage_is_refused_or_harmless_and_named(tmp_path, flavor):
    """Whichever file of the archive is damaged, and however, for a backup anywhere in it: a restore
    of all there is brings all there was, or is refused with the damage and without advice that
    would lose it."""
    whole, names = history(flavor, tmp_path / "whole")
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    refused = 0
    for number, entry in enumerate(damages(whole, "binlogs/", chance, DAMAGES)):
        at = chance.choice([1, 10, 20, 29, chance.randrange(1, LAST)])
        base = base_of("shop", A if flavor == "mysql" else "server-1", flavor, names[at - 1].replace(":", ":1-"))
        folder = tmp_path / "damaged"
        shutil.copytree(tmp_path / "whole", folder)
        damage(folder, entry, chance)
        target = FolderTarget(folder)
        lines = archive.read_timelines(target)
        words = [word for line in lines for word in checking.check_timeline(target, line).problems]
        assert words, f"{entry} is not named"
        hidden = any(line.list_damage_behind(GtidSet.parse(base.position.gtid, flavor)) for line in lines)
        assert not hidden or not is_chain_whole(Backup(base, None), lines), entry
        for goal in (RestoreGoal(), RestoreGoal(GtidSet.parse(names[-1], flavor))):
            relay = tmp_path / f"relay-{number}-{goal.gtid is None}"
            try:
                plan = collected(target, base, relay, goal)
            except InputError as error:
                refused += 1
                assert error.hint and "--latest" not in error.hint and "damaged" in error.rule, (at, entry, error)
            else:
                assert replayed(plan.logs) == names[at:], f"{at}, {entry}: lost in silence"
        shutil.rmtree(folder)
    assert refused, "no damage was one"


def test_kinds_and_places_of_damages_are_spread(tmp_path):
    whole, _ = history("mariadb", tmp_path / "whole")
    result = damages(whole, "binlogs/", random.Random(14), 12)
    assert {entry.kind for entry in result} == set(KINDS) and len({entry.name for entry in result}) > 6
    assert result[0].name.endswith("timeline.json") or "live-" in result[0].name


def test_the_first_piece_behind_a_backup(tmp_path):
    """An archive whose readable part ended just at the backup looked like nothing to replay."""
    target, names = history("mariadb", tmp_path / "t")
    base = base_of("shop", "server-1", "mariadb", "0-1-24")
    name = next(
        entry.name
        for entry in target.list("binlogs/")
        if "000003/" in entry.name and archive.read_piece(target, entry.name, None).set.count() == 1
        and "0-1-25" in str(archive.as_position(archive.read_piece(target, entry.name, None).set))
    )  # fmt: skip
    raw = bytearray((tmp_path / "t" / name).read_bytes())
    raw[100] ^= 1
    (tmp_path / "t" / name).write_bytes(raw)
    for goal in (RestoreGoal(), RestoreGoal(GtidSet.parse("0-1-28", "mariadb"))):
        with pytest.raises(InputError) as refusal:
            collected(target, base, tmp_path / f"relay-{id(goal)}", goal)
        assert name in refusal.value.rule and "6 transactions lie behind" in refusal.value.rule
        assert "copy of the target" in refusal.value.hint and "--latest" not in refusal.value.hint
    early = base_of("shop", "server-1", "mariadb", "0-1-22")
    with pytest.raises(InputError, match="damaged") as refusal:
        collected(target, early, tmp_path / "relay-early", RestoreGoal())
    assert "--to-gtid 0-1-24" in refusal.value.hint
    plan = collected(target, early, tmp_path / "relay-to", RestoreGoal(GtidSet.parse("0-1-24", "mariadb")))
    assert replayed(plan.logs) == names[22:24]
