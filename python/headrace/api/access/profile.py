"""Writes the profile `headrace` of the AWS tools in ~/.aws/config and ~/.aws/credentials; the rest
of these files stays as it is."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.base.files import explain_unwritable, replace_file
from headrace.errors import CouldNotRun, InputError

NAME = "headrace"
_SECTION = re.compile(r"\s*\[([^\]]*)\]\s*([#;].*)?")
# A file of the AWS tools has some kilobytes; a larger one is something else. A guess.
MAX_BYTES = 4 << 20


@dataclass(frozen=True)
class Home:
    """The place of a user's profile, and the owner of its files."""

    config: Path
    credentials: Path
    uid: int
    gid: int


def home() -> Home:
    """Returns the place of the profile of the user who called, also through sudo."""
    uid, gid, folder = os.geteuid(), os.getegid(), Path(os.path.expanduser("~"))
    caller = os.environ.get("SUDO_UID", "")
    if uid == 0 and re.fullmatch(r"[1-9]\d{0,8}", caller, re.ASCII):
        entry = pwd.getpwuid(int(caller))
        uid, gid, folder = entry.pw_uid, entry.pw_gid, Path(entry.pw_dir)
    config = os.environ.get("AWS_CONFIG_FILE") or folder / ".aws/config"
    credentials = os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or folder / ".aws/credentials"
    return Home(Path(config).expanduser(), Path(credentials).expanduser(), uid, gid)


def sections(access_key: str, secret: str, region: str, url: str) -> dict[str, tuple[str, dict[str, str]]]:
    """Returns the section and its settings for each of `config` and `credentials`."""
    return {
        "config": (f"profile {NAME}", {"region": region, "endpoint_url": url}),
        "credentials": (NAME, {"aws_access_key_id": access_key, "aws_secret_access_key": secret}),
    }


def lines(section: str, settings: Mapping[str, str]) -> list[str]:
    """Returns the lines of a section."""
    return [f"[{section}]", *(f"{key} = {value}" for key, value in settings.items())]


def _read(path: Path) -> str:
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


def merged(text: str, section: str, settings: Mapping[str, str], name: str, force: bool) -> str:
    """Returns the text of a file with this section in it: nothing else changes. Raises InputError
    for a file that is not an AWS profile, and for a section with other settings unless `force`."""
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
            and not _seen(rows, number)
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
        return "\n".join([*rows, *gap, *lines(section, settings)]) + "\n"
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
    return "\n".join([*rows[:start], *lines(section, settings), *tail, *rows[end:]]) + "\n"


def _seen(rows: list[str], number: int) -> bool:
    """True when a section begins before this row."""
    return any(_SECTION.fullmatch(row) for row in rows[:number])


def write(where: Home, parts: Mapping[str, tuple[str, dict[str, str]]], force: bool) -> list[Path]:
    """Writes the profile; which files changed. Both are checked before either is written. Raises
    InputError, CouldNotRun.
    """
    drafts: list[tuple[Path, str, str]] = []
    with _acting_as(where):
        for kind, path in (("config", where.config), ("credentials", where.credentials)):
            before = _read(path)
            section, settings = parts[kind]
            drafts.append((path, before, merged(before, section, settings, str(path), force)))
        for path, before, after in drafts:
            if after != before:
                _replace(path, after)
    return [path for path, before, after in drafts if after != before]


@contextlib.contextmanager
def _acting_as(where: Home) -> Iterator[None]:
    """Acts as the owner of the files within the block: links in a user's folder must not lead root
    elsewhere."""
    uid, gid = os.geteuid(), os.getegid()
    try:
        os.setegid(where.gid)
        os.seteuid(where.uid)
        yield
    finally:
        os.seteuid(uid)
        os.setegid(gid)


def _replace(path: Path, text: str) -> None:
    """Replaces a file as a whole. It keeps its mode; a new file is readable by the user alone."""
    # The file may be a link to another place, such as a repository of settings.
    target = Path(os.path.realpath(path))
    with explain_unwritable(path, "Use --no-profile."):
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
        replace_file(target, text.encode(), mode)
