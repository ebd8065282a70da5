"""The key pairs of a lab and the policies of their users (DATA/access, which root alone reads), and
the profile `headrace` of the AWS tools.

    keys.toml        every key pair
    policies/        the policy documents of users, as they were given
    lock             held by a command that changes them

The endpoint's worker cannot read them: the process that starts it hands them over (`as_message`).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import re
import secrets
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NotRequired, TypedDict

import tomli_w

from headrace.api.access.policies import Policy, read_policy
from headrace.base.files import explain_unwritable, replace_file
from headrace.errors import CouldNotRun, InputError, Refusals

ACCOUNT = "000000000000"
ROOT_USER = "root"
FOLDER, KEYS, POLICIES, LOCK = "access", "keys.toml", "policies", "lock"
# Begins every access key id of a lab, so that scanners for secrets do not take it for one of AWS.
KEY_PREFIX = "LABK"
# Random characters behind it: 20 in all, as long as those of AWS.
KEY_RANDOM = 16
# Random bytes of a secret: 40 characters of base64, as long as those of AWS.
SECRET_BYTES = 30
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
# Names of users as IAM has them; policies for one user: IAM's limit is 10 managed policies
# (IAM guide, IAM and AWS STS quotas).
_USER = re.compile(r"[\w+=,.@-]{1,64}", re.ASCII)
MAX_POLICIES = 10
# Users of a lab, so that what the worker is handed stays small. A guess.
MAX_USERS = 100
refuse = Refusals("headrace lab init")


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A key pair. `policies` is None for the root user, who may do everything."""

    access_key: str
    secret: str = field(repr=False)
    user: str = ROOT_USER
    policies: tuple[Policy, ...] | None = None


def get_key_folder(data_dir: Path) -> Path:
    """Returns the folder in which a lab keeps its keys."""
    return data_dir / FOLDER


def _make_private_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.chmod(folder, 0o700)


def _write_private(path: Path, data: bytes) -> None:
    """Writes a file as a whole, so that others can never read it, not even for a moment."""
    with explain_unwritable(path, "Is the disk full, or the folder not yours?"):
        replace_file(path, data)


def read_raw_text(data_dir: Path) -> tuple[str, dict[str, str]]:
    """Returns the text of keys.toml ("" if there is no file) and of every policy that it may
    name."""
    folder = get_key_folder(data_dir)
    try:
        text = _read_if_there(folder / KEYS)
        while True:
            policies = {path.name: _read_if_there(path) for path in sorted((folder / POLICIES).glob("*.json"))}
            # The old text names a user who is removed meanwhile, and whose policies are gone.
            text, former = _read_if_there(folder / KEYS), text
            if text == former:
                return text, policies
    except (OSError, UnicodeDecodeError) as error:
        rule = f"cannot be read: {getattr(error, 'strerror', '') or 'it is not UTF-8'}"
        raise refuse.run(str(folder), rule, "Run this as root.") from None


def _read_if_there(path: Path) -> str:
    """Returns the text of a file, "" if there is none. Raises OSError, UnicodeDecodeError."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def parse_pairs(text: str, policies: Mapping[str, str], name: str = KEYS) -> dict[str, KeyPair]:
    """Returns key pairs by access key id. Raises InputError, which names the file and the line."""
    try:
        parsed = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"line (\d+), column (\d+)", str(error))
        rows = text.splitlines() or [""]
        line, column = (at[1], at[2]) if at else (len(rows), len(rows[-1]) + 1)
        place = f"{name}:{line}:{column}"
        raise InputError(
            place, str(error).partition(" (at")[0], "TOML 1.0", "Correct it, or restore the file."
        ) from None
    lines = [number for number, line in enumerate(text.splitlines(), 1) if line.strip() == "[[key]]"]
    entries = parsed.get("key", [])
    pairs: dict[str, KeyPair] = {}
    for unknown in set(parsed) - {"key"}:
        raise refuse.input(f"{name}: {unknown[:40]}", "is not a part of this file; it has [[key]] tables")
    for entry, line in zip(entries, lines + [0] * len(entries), strict=False):
        pair = _parse_pair(entry, f"{name}:{line}:1", policies)
        if pair.access_key in pairs:
            raise refuse.input(f"{name}:{line}:1", "the access key id is there twice", "Remove one of the tables.")
        pairs[pair.access_key] = pair
    return pairs


class KeyEntry(TypedDict):
    """A `[[key]]` table of the file of keys."""

    user: str
    access_key_id: str
    secret_access_key: str
    policies: NotRequired[list[str]]


def _parse_pair(entry: object, place: str, policies: Mapping[str, str]) -> KeyPair:
    """Returns the key pair of an entry of keys.toml, with its policies read (None for root, which
    needs none). Raises InputError, which names `place`."""
    fields = {"access_key_id": str, "secret_access_key": str, "user": str, "policies": list}
    hint = "Make it again: headrace lab init, headrace lab user."
    if not isinstance(entry, dict):
        raise refuse.input(place, "a key is a [[key]] table", hint)
    for key, value in entry.items():
        if key not in fields or not isinstance(value, fields[key]):
            raise refuse.input(place, f"{key[:40]!r} is not a field of a key, or not of its type", hint)
    for key in ("access_key_id", "secret_access_key", "user"):
        if not entry.get(key):
            raise refuse.input(place, f"a key has {key}", hint)
    named = entry.get("policies")
    if (named is None) != (entry["user"] == ROOT_USER):
        raise refuse.input(place, "every user but root has policies", hint)
    documents = []
    for file_name in named or ():
        if not isinstance(file_name, str) or file_name not in policies:
            raise refuse.input(place, f"the policy {str(file_name)[:60]!r} is not in {FOLDER}/{POLICIES}", hint)
        documents.append(read_policy(policies[file_name], f"{POLICIES}/{file_name}"))
    return KeyPair(
        entry["access_key_id"], entry["secret_access_key"], entry["user"], None if named is None else tuple(documents)
    )


def read_stamp(data_dir: Path) -> list[int]:
    """Returns modification time, ns, and inode of keys.toml and of the folder of policies (0, 0
    where there is none), which change when a file of the keys is replaced."""
    folder, numbers = get_key_folder(data_dir), []
    for path in (folder / KEYS, folder / POLICIES):
        try:
            facts = path.stat()
            numbers += [facts.st_mtime_ns, facts.st_ino]
        except OSError:
            numbers += [0, 0]
    return numbers


def read_pairs(data_dir: Path) -> dict[str, KeyPair]:
    """Returns the key pairs of a lab. Raises InputError, CouldNotRun."""
    text, policies = read_raw_text(data_dir)
    return parse_pairs(text, policies, str(get_key_folder(data_dir) / KEYS))


def as_message(data_dir: Path) -> bytes:
    """Returns keys.toml and the policies in JSON, for the worker, which cannot read the files.
    Raises InputError for damaged ones, CouldNotRun."""
    text, policies = read_raw_text(data_dir)
    parse_pairs(text, policies, str(get_key_folder(data_dir) / KEYS))
    return json.dumps([text, policies]).encode()


def from_message(message: bytes) -> dict[str, KeyPair]:
    """Returns the key pairs of a message of `as_message` by access key id."""
    text, policies = json.loads(message)
    return parse_pairs(text, policies)


def _make_pair(user: str, policies: tuple[Policy, ...] | None) -> KeyPair:
    name = KEY_PREFIX + "".join(secrets.choice(_ALPHABET) for _ in range(KEY_RANDOM))
    return KeyPair(name, secrets.token_urlsafe(SECRET_BYTES), user, policies)


def _save_pair(data_dir: Path, pair: KeyPair, names: Sequence[str] | None) -> None:
    """Adds a key pair to keys.toml; `names`: files of its policies, None for root, which needs
    none."""
    entries = _read_entries(data_dir)
    entry: KeyEntry = {
        "user": pair.user,
        "access_key_id": pair.access_key,
        "secret_access_key": pair.secret,
    }
    if names is not None:
        entry["policies"] = list(names)
    _write_entries(data_dir, [*entries, entry])


def _write_entries(data_dir: Path, entries: Sequence[KeyEntry]) -> None:
    """Replaces keys.toml by these tables, below a comment that says what they are. Raises
    CouldNotRun."""
    head = "# Key pairs of the lab's AWS endpoint (headrace lab init, headrace lab user). Keep it secret.\n\n"
    body = "\n".join("[[key]]\n" + tomli_w.dumps(entry) for entry in entries)
    _write_private(get_key_folder(data_dir) / KEYS, (head + body).encode())


def _read_entries(data_dir: Path) -> list[KeyEntry]:
    """Returns the tables of keys.toml. Raises CouldNotRun."""
    return tomllib.loads(read_raw_text(data_dir)[0]).get("key", [])


def ensure_root_pair(data_dir: Path) -> tuple[KeyPair, bool]:
    """Returns the key pair of the lab's root user, and whether it was made now. Raises InputError,
    CouldNotRun."""
    with _lock_keys(data_dir):
        for pair in read_pairs(data_dir).values():
            if pair.user == ROOT_USER:
                return pair, False
        new_pair = _make_pair(ROOT_USER, None)
        _save_pair(data_dir, new_pair, None)
    return new_pair, True


@contextlib.contextmanager
def _lock_keys(data_dir: Path) -> Iterator[None]:
    """Makes the folders of keys and policies, which root alone may read, and holds their lock in
    the block, for which it waits: commands read the files and write them again. Raises
    CouldNotRun."""
    folder = get_key_folder(data_dir)
    try:
        _make_private_folder(folder)
        _make_private_folder(folder / POLICIES)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise CouldNotRun(str(folder), f"cannot be made: {error.strerror}", "", "Run this as root (sudo).") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def add_user(data_dir: Path, user: str, documents: Sequence[Path]) -> KeyPair:
    """Adds a user with copies of these policy files, and returns its new key pair. Raises
    InputError, CouldNotRun."""
    if not _USER.fullmatch(user) or user == ROOT_USER:
        rule = "a user's name is 1 to 64 letters, digits and +=,.@_-, and not root"
        raise InputError(user[:80], rule, "IAM guide, IAM and AWS STS quotas", "For example alice.")
    if not 1 <= len(documents) <= MAX_POLICIES:
        rule = f"a user has 1 to {MAX_POLICIES} policies"
        raise InputError(
            f"{len(documents)} policies", rule, "IAM guide, IAM and AWS STS quotas", "Name them: --policy FILE"
        )
    texts = [read_policy_text(path) for path in documents]
    policies = tuple(read_policy(text, str(path)) for text, path in zip(texts, documents, strict=True))
    names = [f"{user}-{number}.json" for number in range(1, len(texts) + 1)]
    with _lock_keys(data_dir):
        _check_new_user(read_pairs(data_dir), user)
        for name, text in zip(names, texts, strict=True):
            _write_private(get_key_folder(data_dir) / POLICIES / name, text.encode())
        new_pair = _make_pair(user, policies)
        _save_pair(data_dir, new_pair, names)
    return new_pair


def _check_new_user(pairs: Mapping[str, KeyPair], user: str) -> None:
    """Raises InputError if a lab with these key pairs has a user of this name, or no room for
    another."""
    if any(pair.user == user for pair in pairs.values()):
        raise InputError(
            user, "this lab has a user of this name", "", f"Remove it first: headrace lab user {user} --remove"
        )
    if len(pairs) >= MAX_USERS:
        raise InputError(
            user, f"a lab has at most {MAX_USERS} users", "", "Remove one: headrace lab user NAME --remove"
        )


def read_policy_text(path: Path) -> str:
    """Returns the text of a policy file. Raises InputError."""
    try:
        with open(path, "rb") as file:
            # Far beyond the limit of a policy, which is in characters.
            return file.read(1 << 16).decode()
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}", "", "Name a policy file.") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start + 1}", "a policy is UTF-8 text", "RFC 8259", "") from None


def _split_entries(data_dir: Path, user: str) -> tuple[list[KeyEntry], list[KeyEntry]]:
    """Returns the entries of the key file that are of other users, and those of `user`. Raises
    InputError where there are none of `user`, CouldNotRun."""
    entries = _read_entries(data_dir)
    own = [entry for entry in entries if entry["user"] == user and user != ROOT_USER]
    if not own:
        names = ", ".join(entry["user"] for entry in entries if entry["user"] != ROOT_USER) or "none"
        raise InputError(user[:80], "is not a user of this lab that can be removed", "", f"There are: {names}.")
    return [entry for entry in entries if entry not in own], own


def get_user_key(data_dir: Path, user: str) -> str:
    """Returns the access key of a user that can be removed. Raises InputError, CouldNotRun."""
    return str(_split_entries(data_dir, user)[1][0].get("access_key_id", ""))


def remove_user(data_dir: Path, user: str) -> None:
    """Removes a user, its key pair and its policies. Raises InputError, CouldNotRun."""
    with _lock_keys(data_dir):
        others, own = _split_entries(data_dir, user)
        _write_entries(data_dir, others)
        for entry in own:
            for name in entry.get("policies", ()):
                (get_key_folder(data_dir) / POLICIES / name).unlink(missing_ok=True)


# --- ~/.aws/config and ~/.aws/credentials: the rest of them stays as it is ------------------------


PROFILE = "headrace"
_SECTION = re.compile(r"\s*\[([^\]]*)\]\s*([#;].*)?")
# A file of the AWS tools has some kilobytes; a larger one is something else. A guess.
MAX_BYTES = 4 << 20


@dataclass(frozen=True)
class ProfileFiles:
    """The place of a user's profile, and the owner of its files."""

    config: Path
    credentials: Path
    uid: int
    gid: int


def find_profile_files() -> ProfileFiles:
    """Returns the files of the AWS tools into which the profile `headrace` of the lab is
    written: those of the user who called, also through sudo, with the ids of their owner."""
    uid, gid, folder = os.geteuid(), os.getegid(), Path(os.path.expanduser("~"))
    caller = os.environ.get("SUDO_UID", "")
    if uid == 0 and re.fullmatch(r"[1-9]\d{0,8}", caller, re.ASCII):
        entry = pwd.getpwuid(int(caller))
        uid, gid, folder = entry.pw_uid, entry.pw_gid, Path(entry.pw_dir)
    config = os.environ.get("AWS_CONFIG_FILE") or folder / ".aws/config"
    credentials = os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or folder / ".aws/credentials"
    return ProfileFiles(Path(config).expanduser(), Path(credentials).expanduser(), uid, gid)


def build_profile_sections(
    access_key: str, secret: str, region: str, url: str
) -> dict[str, tuple[str, dict[str, str]]]:
    """Returns the section and its settings for each of `config` and `credentials`."""
    return {
        "config": (f"profile {PROFILE}", {"region": region, "endpoint_url": url}),
        "credentials": (PROFILE, {"aws_access_key_id": access_key, "aws_secret_access_key": secret}),
    }


def build_profile_lines(section: str, settings: Mapping[str, str]) -> list[str]:
    """Returns the lines of a section."""
    return [f"[{section}]", *(f"{key} = {value}" for key, value in settings.items())]


def _read_profile_file(path: Path) -> str:
    """Reads a file of the AWS CLI; "" where there is none. Raises CouldNotRun for an unreadable
    one, InputError for one too long or not UTF-8."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise CouldNotRun(str(path), f"cannot be read: {error.strerror}", "", "Use --no-profile.") from None
    if len(data) > MAX_BYTES:
        raise InputError(str(path), f"has more than {MAX_BYTES:,} bytes", "", "Use --no-profile.")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(f"{path}:{line}:1", "is not UTF-8 text", "AWS CLI guide", "Correct it.") from None


def merge_section(text: str, section: str, settings: Mapping[str, str], name: str, force: bool) -> str:
    """Returns the text of a file of the AWS tools with this section added or replaced. `name`: of
    the file. Raises InputError for a file that has no sections, and for a section with other
    settings unless `force`."""
    rows = text.splitlines()
    start = end = None
    for number, row in enumerate(rows):
        match = _SECTION.fullmatch(row)
        if row.lstrip().startswith("[") and match is None:
            raise InputError(
                f"{name}:{number + 1}:1", "is not a section like [default]", "AWS CLI guide", "Correct it."
            )
        if (
            match is None
            and start is None
            and "=" not in row
            and row.strip()
            and row.lstrip()[0] not in "#;"
            and not _follows_section(rows, number)
        ):
            raise InputError(
                f"{name}:{number + 1}:1", "is not a setting of any section", "AWS CLI guide", "Correct it."
            )
        if match is not None:
            if start is not None and end is None:
                end = number
            if " ".join(match[1].split()) == section:
                if start is not None:
                    rule = f"the section [{section}] is there twice"
                    raise InputError(f"{name}:{number + 1}:1", rule, "AWS CLI guide", "Remove one of them.")
                start = number
    if start is None:
        gap = [""] if rows and rows[-1].strip() else []
        return "\n".join([*rows, *gap, *build_profile_lines(section, settings)]) + "\n"
    end = len(rows) if end is None else end
    current = {
        key.strip(): value.strip()
        for key, equals, value in (row.partition("=") for row in rows[start + 1 : end])
        if equals and key.lstrip()[:1] not in ("#", ";")
    }
    if current == dict(settings):
        return text
    if not force:
        rule = f"there is another profile of this name: [{section}] differs from this lab's"
        hint = "Replace it with --force, or see the lines with --no-profile."
        raise InputError(f"{name}:{start + 1}:1", rule, "", hint)
    tail = [row for row in rows[start + 1 : end] if not row.strip()][-1:]
    return "\n".join([*rows[:start], *build_profile_lines(section, settings), *tail, *rows[end:]]) + "\n"


def _follows_section(rows: list[str], number: int) -> bool:
    """Returns whether a section begins above the row of this index."""
    return any(_SECTION.fullmatch(row) for row in rows[:number])


def write_profile(files: ProfileFiles, parts: Mapping[str, tuple[str, dict[str, str]]], force: bool) -> list[Path]:
    """Writes the sections of `build_profile_sections` into both files, and returns those that
    changed. Both are checked before either is written. Raises InputError, CouldNotRun."""
    drafts: list[tuple[Path, str, str]] = []
    with _act_as(files):
        for kind, path in (("config", files.config), ("credentials", files.credentials)):
            before = _read_profile_file(path)
            section, settings = parts[kind]
            drafts.append((path, before, merge_section(before, section, settings, str(path), force)))
        for path, before, after in drafts:
            if after != before:
                _replace_profile_file(path, after)
    return [path for path, before, after in drafts if after != before]


@contextlib.contextmanager
def _act_as(files: ProfileFiles) -> Iterator[None]:
    """Acts as the owner of the files within the block: links in a user's folder must not lead root
    elsewhere."""
    uid, gid = os.geteuid(), os.getegid()
    try:
        os.setegid(files.gid)
        os.seteuid(files.uid)
        yield
    finally:
        os.seteuid(uid)
        os.setegid(gid)


def _replace_profile_file(path: Path, text: str) -> None:
    """Replaces a file as a whole. It keeps its mode; a new file is readable by the user alone."""
    # The file may be a link to another place, such as a repository of settings.
    target = Path(os.path.realpath(path))
    with explain_unwritable(path, "Use --no-profile."):
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
        replace_file(target, text.encode(), mode)
