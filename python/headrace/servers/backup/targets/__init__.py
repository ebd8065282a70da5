"""Places where backups lie: a folder, or a bucket behind the S3 API."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote

from headrace.errors import InputError
from headrace.servers.backup.targets.folder import FolderTarget
from headrace.servers.backup.targets.target import DOC, FORM, BackupTarget


def open_target(text: str | os.PathLike) -> BackupTarget:
    """Opens the target that a text names. Raises InputError for a text that is not a target,
    CouldNotRun for a folder that cannot be used, or S3 without boto3."""
    text = os.fspath(text)
    if not isinstance(text, str) or not text or "\0" in text or "\n" in text or "\r" in text:
        raise InputError(repr(text)[:80], f"a target is {FORM}", DOC, "For example --to file:///backup/mysql.")
    scheme, colon, rest = text.partition("://")
    if colon and scheme == "s3":
        from headrace.servers.backup.targets.s3 import S3Target

        return S3Target(rest)
    if colon and scheme == "file":
        if not rest.startswith("/"):
            raise InputError(text[:120], "file:// is followed by an absolute path", DOC, "For example file:///backup.")
        return FolderTarget(Path(unquote(rest)))
    if colon:
        raise InputError(text[:120], f"a target is {FORM}", DOC, "For example --to file:///backup/mysql.")
    return FolderTarget(Path(os.path.abspath(text)))
