"""The supervisor of the endpoint with a worker and a daemon that are pipes: what it announces, and what it survives."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.api.server import startup
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
    with pytest.raises(end), bed.supervisor._hold_announcement():
        raise end
    assert startup.find(bed.folder).url == f"http://127.0.0.1:{bed.listener.getsockname()[1]}"


def test_an_endpoint_that_ends_with_its_lab_is_announced_no_more(bed):
    with bed.supervisor._hold_announcement():
        bed.end_daemon()
    assert startup.find(bed.folder) is None and not get_endpoint_file(bed.folder).exists()
