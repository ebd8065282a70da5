"""Gives connections to the daemon to a process that may not open them itself: the supervisor opens
them and hands over the descriptors."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator

from headrace.api.errors import AwsError
from headrace.lab.client import Lab
from headrace.lab.place import Place
from headrace.lab.wire import NoLab, Wire

# Connections to the daemon at once. It allows 64 to all its callers
# (docs/reference/lab-protocol.md), and leaves the rest to commands and the exporter.
MAX_LABS = 24
# The longest wait for one of them: the calls of others take milliseconds, an attachment some
# seconds.
WAIT_S = 30.0

Connect = Callable[[float], socket.socket]


class HandedWire(Wire):
    """A wire whose connections are opened by `connect(timeout_s)`, which raises NoLab."""

    def __init__(self, place: Place, connect: Connect) -> None:
        super().__init__(place)
        self._open = connect

    def _connect(self, deadline: float) -> socket.socket:
        """Returns the connection to the daemon, opened by the supervisor when there is none.
        `deadline`: of the monotonic clock, s."""
        if self._socket is None:
            self._socket, self._unread = self._open(max(0.0, deadline - time.monotonic())), b""
        return self._socket


class HandedLab(Lab):
    """A lab over connections that somebody else opens."""

    def __init__(self, place: Place, connect: Connect) -> None:
        super().__init__(place.data_dir, place.socket)
        self._wire = HandedWire(self.place, connect)


class LabPool:
    """At most MAX_LABS connections, each for one request at a time; the last used is the next."""

    def __init__(self, make: Callable[[], Lab]) -> None:
        self._make = make
        self._places = threading.Semaphore(MAX_LABS)
        self._free: list[Lab] = []

    @contextlib.contextmanager
    def lend_lab(self) -> Iterator[Lab]:
        """Lends a connection for a request. Raises AwsError if all stay in use."""
        if not self._places.acquire(timeout=WAIT_S):
            raise AwsError("ServiceUnavailable", f"All {MAX_LABS} connections to the lab are in use.", 503)
        try:
            try:
                lab = self._free.pop()
            except IndexError:
                lab = self._make()
            try:
                yield lab
            finally:
                self._free.append(lab)
        finally:
            self._places.release()


class Broker:
    """The worker's end of its channel to the supervisor: asks for connections."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._answers: queue.SimpleQueue[socket.socket | str] = queue.SimpleQueue()

    def connect(self, timeout_s: float) -> socket.socket:
        """Asks the supervisor for a new connection to the daemon, waits for it at most `timeout_s`,
        and returns it. Raises NoLab."""
        with self._lock:
            while not self._answers.empty():
                late = self._answers.get()
                if isinstance(late, socket.socket):
                    late.close()
            try:
                self._channel.sendall(b"?")
                answer = self._answers.get(timeout=max(timeout_s, 0.001))
            except (OSError, queue.Empty):
                answer = "the endpoint's supervisor does not answer"
        if isinstance(answer, str):
            raise NoLab("headraced", answer, "", "Start the lab: headrace lab up")
        return answer

    def take_answer(self, answer: socket.socket | str) -> None:
        """Hands the supervisor's answer to the waiting `connect`: a connection, or the reason why
        there is none."""
        self._answers.put(answer)
