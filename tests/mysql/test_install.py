"""`headrace mysql install` where it cannot be: no room, no privilege, a Ctrl-C while packages are fetched.
Nothing of it is left; nothing is fetched here."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_folders import Command, call, call_as_nobody, small_disk
from reachable import make_reachable
from waiting import patience, wait_until

LINE = "mysql install mysql"


@pytest.fixture
def silent_mirror() -> Iterator[str]:
    """A mirror that takes every connection and never answers."""
    taken: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def take() -> None:
            with contextlib.suppress(OSError):
                while True:
                    taken.append(listener.accept()[0])

        threading.Thread(target=take, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/debian"
        listener.shutdown(socket.SHUT_RDWR)
    for entry in taken:
        entry.close()


def processes_of(folder: Path) -> list[str]:
    """Command lines that name a folder, of processes that run."""
    result = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            result += [words] if f"{folder}/" in words else []
    return result


def test_a_full_disk_is_said_before_anything_is_fetched(tmp_path, monkeypatch):
    with small_disk(tmp_path / "d", 16) as place:
        monkeypatch.setenv("HEADRACE_SERVERS", str(place / "servers"))
        code, message = call(LINE)
        assert code == 3 and "MiB free, and 600 MiB are needed" in message and "HEADRACE_SERVERS" in message, message
        assert list(place.iterdir()) == []


@pytest.mark.parametrize("mode", [0o755, 0o700])
def test_without_the_privilege_it_says_which_folder(tmp_path, monkeypatch, silent_mirror, mode):
    """A folder of root: one that others may look into, and one that they may not."""
    make_reachable(tmp_path)
    owned = tmp_path / "owned"
    owned.mkdir(mode=mode)
    monkeypatch.setenv("HEADRACE_SERVERS", str(owned / "servers"))
    monkeypatch.setenv("HEADRACE_DEBIAN_MIRROR", silent_mirror)
    # The modules that it needs are imported by this, which gets no further than the folder's name.
    call("mysql install nothing")
    with monkeypatch.context() as patched:
        patched.setenv("HEADRACE_SERVERS", "/dev/null/servers")
        assert call(LINE)[0] == 3
    [(_, code, message)] = call_as_nobody([LINE])
    # A user who may not even look cannot know whether a server is there.
    words = "cannot be written" if mode == 0o755 else "cannot be used"
    assert code == 3 and f"{owned}/servers: {words}: Permission denied" in message, message
    assert ("Run it with sudo" in message or mode == 0o700) and list(owned.iterdir()) == []


def test_ctrl_c_while_packages_are_fetched_leaves_nothing(tmp_path, silent_mirror):
    headrace = Command(tmp_path)
    folder = tmp_path / "servers"
    headrace.environment |= {"HEADRACE_SERVERS": str(folder), "HEADRACE_DEBIAN_MIRROR": silent_mirror}
    running = headrace.begun(*LINE.split())
    wait_until(lambda: processes_of(folder) or running.poll() is not None, "apt-get", pause_s=0.05)
    running.send_signal(signal.SIGINT)
    _, stderr = running.communicate(timeout=patience(60))
    assert running.returncode == 130 and "interrupted" in stderr and "Traceback" not in stderr, stderr
    assert not folder.exists() and not processes_of(folder)
