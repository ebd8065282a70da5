"""The supervisor of the endpoint with a worker and a daemon that are pipes: what it announces, and what it survives."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.api.access import keys
from headrace.api.server import startup, worker
from headrace.api.server.supervisor import Supervisor
from headrace.lab.place import Place, get_endpoint_file


class Bed:
    """A supervisor of a lab in a folder, whose daemon ends when `end_daemon` is called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.listener = socket.create_server(("127.0.0.1", 0))
        # A pipe becomes readable when its other end is closed, as the descriptor of a process when that ends.
        self.daemon, self._daemon_end = os.pipe()
        lab = SimpleNamespace(status=lambda: {"data_dir": str(folder), "region": "eu-west-1"})
        self.supervisor = Supervisor(Place(folder, folder / "lab.sock"), self.listener, lab, self.daemon)

    def end_daemon(self) -> None:
        if self._daemon_end is not None:
            os.close(self._daemon_end)
        self._daemon_end = None

    def close(self) -> None:
        self.end_daemon()
        self.listener.close()
        os.close(self.daemon)


@pytest.fixture
def bed(tmp_path) -> Iterator[Bed]:
    supervised = Bed(tmp_path)
    yield supervised
    supervised.close()


@pytest.mark.parametrize("end", [SystemExit, ValueError])
def test_an_endpoint_that_ends_before_its_lab_can_be_started_again(bed, end):
    with pytest.raises(end), bed.supervisor._publish_address():
        raise end
    assert startup.find_endpoint(bed.folder).url == f"http://127.0.0.1:{bed.listener.getsockname()[1]}"


def test_an_endpoint_that_ends_with_its_lab_is_announced_no_more(bed):
    with bed.supervisor._publish_address():
        bed.end_daemon()
    assert startup.find_endpoint(bed.folder) is None and not get_endpoint_file(bed.folder).exists()


@pytest.mark.parametrize("what", ["connection", "unread", "keys"])
def test_a_worker_that_ends_while_it_is_served_is_started_again(bed, monkeypatch, what):
    """The process of a worker is seen to end a moment after its sockets are closed, with a wish on the way."""
    channel, worker_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    running, process_end = os.pipe()
    if what == "unread":
        channel.send(b"an answer that it did not read")
    if what == "keys":
        keys.ensure_root_pair(bed.folder)
        monkeypatch.setattr(bed.supervisor, "_hand_connection", lambda channel: None)
    worker_end.send(b"?")
    worker_end.close()
    with channel:
        assert bed.supervisor._watch(channel, running)
    for descriptor in (running, process_end):
        os.close(descriptor)
    if what == "keys":
        # The next worker has them: a command that changed them does not wait.
        assert keys.from_message(bed.supervisor._keys) == keys.read_pairs(bed.folder)
        announced = json.loads(get_endpoint_file(bed.folder).read_text())
        assert announced["keys"] == keys.read_stamp(bed.folder)


def test_keys_that_change_while_the_supervisor_starts_are_handed_over(tmp_path, monkeypatch):
    read = keys.as_message

    def read_then_change(folder: Path) -> bytes:
        message = read(folder)
        monkeypatch.setattr(keys, "as_message", read)
        keys.ensure_root_pair(folder)
        return message

    monkeypatch.setattr(keys, "as_message", read_then_change)
    bed = Bed(tmp_path)
    channel, worker_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with channel, worker_end:
        bed.supervisor._hand_keys(channel)
        worker_end.setblocking(False)
        kind, descriptors = worker.receive_message(worker_end)
        assert kind == worker.KEYS and worker._read_keys(descriptors[0]) == keys.read_pairs(tmp_path)
    bed.close()
