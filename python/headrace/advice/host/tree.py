"""Files of a host, read and never written: this machine, a folder or a tarball captured elsewhere.

Links are followed inside the tree alone. A link that leads out of a captured tree is refused,
because the answer would be about another machine.
"""

from __future__ import annotations

import os
import posixpath
import stat
import tarfile
from abc import ABC, abstractmethod
from pathlib import Path

from headrace.base.checks import quote_value
from headrace.errors import Refusals

refuse = Refusals("headrace advise --host")
# A page of /proc or /sys is 4 KiB; interrupts of large machines and mountinfo are longer.
MOST_BYTES = 1024 * 1024
# Most members of a tarball, and their bytes all together: thousands of small files.
MOST_MEMBERS, MOST_TOTAL = 50_000, 64 * 1024 * 1024
MOST_LINKS = 40  # as the kernel's
UNREADABLE = "not readable"


class HostTree(ABC):
    """Reads files by their path on the host. `live`: it is this machine. `unreadable`: paths that
    are there and could not be read."""

    live = False

    def __init__(self) -> None:
        self.unreadable: dict[str, str] = {}

    @abstractmethod
    def read(self, path: str) -> str | None:
        """Returns the text of a file, stripped; None where it is missing or cannot be read."""

    @abstractmethod
    def list_names(self, path: str) -> list[str]:
        """Returns names in a folder, sorted; none where it is missing."""

    @abstractmethod
    def _read_link(self, path: str) -> str | None:
        """Returns the target of a link, as it is written; None for other files. No folder of `path`
        is a link."""

    def read_target(self, path: str) -> str | None:
        """Returns the target of a link, as it is written; None for other files."""
        parent, name = posixpath.split(path)
        return self._read_link(posixpath.join(self._resolve_path(parent), name))

    def _resolve_path(self, path: str) -> str:
        """Returns a path with its links followed inside the tree; one that starts at the root means
        the tree's. Raises InputError where they lead out or in a circle."""
        at: list[str] = []
        pending = [part for part in path.split("/") if part]
        links = 0
        while pending:
            part = pending.pop(0)
            if part == "..":
                if not at:
                    _refuse_link_out(path)
                at.pop()
                continue
            link = None if part == "." else self._read_link("/" + "/".join([*at, part]))
            if link is None:
                at += [] if part == "." else [part]
                continue
            links += 1
            if links > MOST_LINKS:
                raise refuse.input(quote_value(path), "is a link in a circle", "Capture the host again.")
            pending = [*(name for name in link.split("/") if name), *pending]
            at = [] if link.startswith("/") else at
        return "/" + "/".join(at)

    def has(self, path: str) -> bool:
        """Returns whether a folder with something in it is there."""
        return bool(self.list_names(path))

    def read_number(self, path: str) -> int | None:
        """Returns a file's whole number; None where it has none."""
        text = self.read(path)
        try:
            return None if text is None else int(text.split()[0])
        except (ValueError, IndexError):
            return None


def open_tree(root: Path | None) -> HostTree:
    """Returns this machine, or a captured tree. Raises InputError for anything else."""
    if root is None:
        return _Folder(Path("/"), live=True)
    if root.is_dir():
        tree: HostTree = _Folder(root.resolve(), live=False)
    elif root.is_file():
        tree = _Tarball(root)
    else:
        hint = "Give a folder with proc and sys in it, or a tarball of one."
        raise refuse.input(f"--root {root}", "is neither a folder nor a file", hint)
    if not (tree.has("/proc") or tree.has("/sys")):
        hint = "docs/guide/host-advice.md says how to capture one."
        raise refuse.input(f"--root {root}", "has neither proc nor sys, so it is not a tree of a host", hint)
    return tree


class _Folder(HostTree):
    def __init__(self, root: Path, *, live: bool) -> None:
        super().__init__()
        self.root, self.live = root, live

    def _read_link(self, path: str) -> str | None:
        try:
            return os.readlink(self._get_file(path))
        except OSError:
            return None

    def _resolve_path(self, path: str) -> str:
        # The kernel follows the links of this machine.
        return path if self.live else super()._resolve_path(path)

    def _get_file(self, place: str) -> Path:
        return self.root / place.lstrip("/")

    def read(self, path: str) -> str | None:
        place = self._get_file(self._resolve_path(path))
        try:
            if not stat.S_ISREG(place.stat().st_mode):
                return None
            with place.open("rb") as file:
                return _decode_text(file.read(MOST_BYTES))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            self.unreadable[path] = getattr(error, "strerror", None) or UNREADABLE
            return None

    def list_names(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self._get_file(self._resolve_path(path))))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self.unreadable[path] = error.strerror or UNREADABLE
            return []


class _Tarball(HostTree):
    def __init__(self, path: Path) -> None:
        """Reads the whole tarball into memory. Raises InputError where it cannot be read, is too
        large or has a link that leads out."""
        super().__init__()
        self.files: dict[str, bytes] = {}
        self.links: dict[str, str] = {}
        self.folders: dict[str, set[str]] = {}
        if not path.stat().st_size:
            raise refuse.input(f"--root {path}", "is empty", "Capture the host again.")
        try:
            with tarfile.open(path, "r:*") as archive:
                self._load(archive)
        except (tarfile.TarError, OSError, EOFError) as error:
            why = "gzip, bzip2, xz or none" if isinstance(error, tarfile.ReadError) else str(error).splitlines()[0][:80]
            hint = "docs/guide/host-advice.md says how to capture a host as one."
            raise refuse.input(f"--root {path}", f"is not a tarball that can be read ({why})", hint) from None
        for name in self.links:
            self._resolve_path(name)  # refuses what leads out

    def _load(self, archive: tarfile.TarFile) -> None:
        """Adds the members to files, links and folders; those too large or special are unreadable.
        Raises InputError above MOST_MEMBERS or MOST_TOTAL bytes."""
        total = 0
        for count, member in enumerate(archive):
            if count >= MOST_MEMBERS:
                raise refuse.input("the tarball", f"has more than {MOST_MEMBERS:,} files", "Capture less.")
            name = self._normalise_name(member.name)
            if member.isdir():
                self.folders.setdefault(name, set())
            elif member.issym() or member.islnk():
                self.links[name] = (
                    member.linkname if member.issym() else "/" + self._normalise_name(member.linkname).lstrip("/")
                )
            elif member.isreg() and member.size <= MOST_BYTES:
                total += member.size
                if total > MOST_TOTAL:
                    raise refuse.input("the tarball", f"holds more than {MOST_TOTAL >> 20} MiB", "Capture less.")
                opened = archive.extractfile(member)
                self.files[name] = b"" if opened is None else opened.read(MOST_BYTES)
            else:
                self.unreadable[name] = "is not a file, or too large"
                continue
            while name != "/":
                parent, own = posixpath.split(name)
                self.folders.setdefault(parent, set()).add(own)
                name = parent

    @staticmethod
    def _normalise_name(name: str) -> str:
        """Returns a member's name as a path from the root. Raises InputError where it is absolute
        or has `..` in it."""
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if name.startswith("/") or ".." in parts:
            rule = "is absolute or has .. in it: a tarball may only hold what lies below its root"
            raise refuse.input(f"{quote_value(name)} in the tarball", rule, "Make it with relative names.")
        return "/" + "/".join(parts)

    def _read_link(self, path: str) -> str | None:
        return self.links.get(path)

    def read(self, path: str) -> str | None:
        content = self.files.get(self._resolve_path(path))
        return None if content is None else _decode_text(content)

    def list_names(self, path: str) -> list[str]:
        return sorted(self.folders.get(self._resolve_path(path), ()))


def _refuse_link_out(path: str) -> None:
    """Raises InputError for a path with a link that leads out of the tree."""
    rule = "leads out of the captured tree: the answer would be about another machine"
    raise refuse.input(quote_value(path), rule, "Capture the host again, with links that stay inside.")


def _decode_text(content: bytes) -> str:
    return content.decode("utf-8", "replace").strip("\x00 \n\t")
