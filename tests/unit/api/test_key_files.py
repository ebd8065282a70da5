"""Key pairs, users and the profile of the AWS tools, as files: everything else in them stays as it is."""

from __future__ import annotations

import os
import random
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from botocore.session import Session

from headrace.api.access import keys
from headrace.errors import InputError

POLICY = '{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "ec2:*", "Resource": "*"}}'


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_key_pair_is_made_once_and_nobody_else_can_read_it(tmp_path):
    pair, result = keys.ensure_root_pair(tmp_path)
    assert result and keys.ensure_root_pair(tmp_path) == (pair, False)
    assert len(pair.access_key) == 20 and len(pair.secret) == 40 and pair.policies is None
    assert keys.ensure_root_pair(tmp_path / "other")[0].secret != pair.secret
    assert mode(tmp_path / "access") == 0o700 and mode(tmp_path / "access/keys.toml") == 0o600
    assert pair.secret not in repr(pair)
    assert keys.from_message(keys.as_message(tmp_path)) == {pair.access_key: pair}


def test_users_have_keys_and_policies_of_their_own(tmp_path):
    root, _ = keys.ensure_root_pair(tmp_path)
    policy = tmp_path / "p.json"
    policy.write_text(POLICY)
    ann = keys.add_user(tmp_path, "ann", [policy, policy])
    assert keys.read_pairs(tmp_path).keys() == {root.access_key, ann.access_key}
    pair = keys.from_message(keys.as_message(tmp_path))[ann.access_key]
    assert pair.user == "ann" and pair.policies is not None and len(pair.policies) == 2
    assert all(mode(path) == 0o600 for path in (tmp_path / "access/policies").iterdir())
    for name, count in (("ann", 1), ("root", 1), ("a b", 1), ("", 1), ("bob", 0), ("bob", 11)):
        with pytest.raises(InputError):
            keys.add_user(tmp_path, name, [policy] * count)
    policy.write_text(POLICY.replace("Allow", "Perhaps"))
    with pytest.raises(InputError) as raised:
        keys.add_user(tmp_path, "bob", [policy])
    assert raised.value.value == f"{policy}:1:51"
    keys.remove_user(tmp_path, "ann")
    assert keys.read_pairs(tmp_path) == {root.access_key: root} and not list((tmp_path / "access/policies").iterdir())
    assert (tmp_path / "access/keys.toml").read_text().startswith("# Key pairs")
    with pytest.raises(InputError, match="There are: none"):
        keys.remove_user(tmp_path, "ann")
    with pytest.raises(InputError):
        keys.remove_user(tmp_path, "root")


def test_commands_on_the_keys_at_once_lose_none(tmp_path):
    """Random users are made and removed by several at a time, while somebody reads: what each did is there, and the
    reader meets whole states alone."""
    root, _ = keys.ensure_root_pair(tmp_path)
    policy = tmp_path / "p.json"
    policy.write_text(POLICY)
    begin, ended = threading.Barrier(5), threading.Event()

    def change(number: int) -> set[str]:
        chance, users = random.Random(number), {}
        begin.wait()
        for count in range(8):
            if users and chance.random() < 0.4:
                user = chance.choice(sorted(users))
                keys.remove_user(tmp_path, user)
                del users[user]
            else:
                user = f"user-{number}-{count}"
                users[user] = keys.add_user(tmp_path, user, [policy] * chance.randint(1, 3)).access_key
        return set(users.values())

    def read() -> bool:
        begin.wait()
        while not ended.is_set():
            if root.access_key not in keys.from_message(keys.as_message(tmp_path)):
                return False
        return True

    with ThreadPoolExecutor(5) as pool:
        reader = pool.submit(read)
        try:
            expected = set().union(*pool.map(change, range(4)))
        finally:
            ended.set()
        assert reader.result()
    pairs = keys.read_pairs(tmp_path)
    assert pairs.keys() == expected | {root.access_key}
    count = sum(len(pair.policies or ()) for pair in pairs.values())
    assert len(list((tmp_path / "access/policies").iterdir())) == count


def test_a_user_who_is_removed_while_the_keys_are_read_takes_no_other_along(tmp_path, monkeypatch):
    root, _ = keys.ensure_root_pair(tmp_path)
    policy = tmp_path / "p.json"
    policy.write_text(POLICY)
    keys.add_user(tmp_path, "bob", [policy])
    read = Path.read_text

    def remove_then_read(path: Path) -> str:
        if path.name == "bob-1.json":
            monkeypatch.setattr(Path, "read_text", read)
            keys.remove_user(tmp_path, "bob")
        return read(path)

    monkeypatch.setattr(Path, "read_text", remove_then_read)
    assert keys.read_pairs(tmp_path) == {root.access_key: root}


@pytest.mark.parametrize(
    ("text", "place", "rule"),
    [
        ("[[key]]\nuser =", ":2:7", ""),
        ('[[key]]\nuser = "root"\n', ":1:1", "a key has access_key_id"),
        ("\n[[key]]\nuser = 5\n", ":2:1", "not of its type"),
        ('[[key]]\nuser = "a"\naccess_key_id = "x"\nsecret_access_key = "y"\n', ":1:1", "has policies"),
        (
            '[[key]]\nuser = "a"\naccess_key_id = "x"\nsecret_access_key = "y"\npolicies = ["gone.json"]\n',
            ":1:1",
            "gone.json",
        ),
        ('[[key]]\nuser = "root"\naccess_key_id = "x"\nsecret_access_key = "y"\n' * 2, ":5:1", "is there twice"),
        ("other = 1\n", ": other", "not a part of this file"),
    ],
)
def test_a_wrong_key_file_is_named_with_its_line(tmp_path, text, place, rule):
    (tmp_path / "access").mkdir()
    (tmp_path / "access/keys.toml").write_text(text)
    with pytest.raises(InputError) as raised:
        keys.read_pairs(tmp_path)
    assert raised.value.value == f"{tmp_path}/access/keys.toml{place}" and rule in raised.value.rule


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "aws/config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "aws/credentials"))
    return keys.find_profile_files()


PARTS = keys.build_profile_sections("LABKX", "secret+/=", "eu-west-1", "http://127.0.0.1:9465")


def test_the_profile_is_what_the_aws_tools_read(home):
    assert keys.write_profile(home, PARTS, False) == [home.config, home.credentials]
    assert keys.write_profile(home, PARTS, False) == [], "it is as it has to be"
    assert mode(home.credentials) == 0o600 and mode(home.credentials.parent) == 0o700
    session = Session(profile="headrace")
    credentials = session.get_credentials()
    assert (credentials.access_key, credentials.secret_key) == ("LABKX", "secret+/=")
    client = session.create_client("ec2")
    assert client.meta.endpoint_url == "http://127.0.0.1:9465" and client.meta.region_name == "eu-west-1"


def random_file(chance: random.Random, section: str) -> list[str]:
    """Sections of other profiles, comments and gaps."""
    rows: list[str] = []
    for name in chance.sample(["default", "profile work", "sso-session x", "profile headrace2"], chance.randint(0, 4)):
        rows += [f"[{name}]", f"region = {name[:3]}", *["# a comment", "", "  nested = 1"][: chance.randint(0, 3)]]
    return rows


def test_everything_else_in_the_files_stays(home):
    chance = random.Random(3)
    for _ in range(200):
        section, settings = PARTS["config"]
        before = random_file(chance, section)
        text = "\n".join(before) + chance.choice(["", "\n", "\n\n"]) if before else ""
        after = keys.merge_section(text, section, settings, "config", False)
        assert keys.merge_section(after, section, settings, "config", False) == after
        rows = after.splitlines()
        at = rows.index("[profile headrace]")
        rest = rows[:at] + rows[at + 1 + len(settings) :]
        assert [row for row in rest if row] == [row for row in before if row]
        # Replaced by force, and what stands around it stays as well.
        other = {"region": "us-east-1", "endpoint_url": "http://127.0.0.1:1"}
        with pytest.raises(InputError) as raised:
            keys.merge_section(after, section, other, "config", False)
        assert raised.value.value == f"config:{at + 1}:1" and "--force" in raised.value.hint
        forced = keys.merge_section(after, section, other, "config", True).splitlines()
        assert [row for row in forced if row] == [
            row.replace("eu-west-1", "us-east-1").replace(":9465", ":1") if at < number <= at + 2 else row
            for number, row in enumerate(rows)
            if row
        ]


@pytest.mark.parametrize(
    ("text", "place", "rule"),
    [
        ("[default\n", ":1:1", "not a section"),
        ("\nregion\n", ":2:1", "not a setting"),
        ("[profile headrace]\na = 1\n[profile headrace]\n", ":3:1", "there twice"),
    ],
)
def test_a_wrong_profile_file_is_named_with_its_line_and_stays(home, text, place, rule):
    home.config.parent.mkdir()
    home.config.write_text(text)
    with pytest.raises(InputError) as raised:
        keys.write_profile(home, PARTS, True)
    assert raised.value.value == f"{home.config}{place}" and rule in raised.value.rule
    assert home.config.read_text() == text and not home.credentials.exists()


def test_a_link_stays_a_link_and_a_mode_stays_a_mode(home, tmp_path):
    real = tmp_path / "dotfiles"
    real.write_text("[default]\nregion = x\n")
    os.chmod(real, 0o640)
    home.config.parent.mkdir()
    home.config.symlink_to(real)
    keys.write_profile(home, PARTS, False)
    assert home.config.is_symlink() and mode(real) == 0o640 and real.read_text().startswith("[default]\nregion = x\n")
    home.credentials.write_bytes(b"[x]\n\xff = 1\n")
    with pytest.raises(InputError) as raised:
        keys.write_profile(home, PARTS, True)
    assert raised.value.value == f"{home.credentials}:2:1"
