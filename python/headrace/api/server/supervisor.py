"""The supervisor of the endpoint: the part that has rights and reads nothing from the network.

    python -m headrace.api.server.supervisor SOCKET DATA_DIR DESCRIPTOR [detach]

It starts the worker, hands it the key pairs when they change and connections to the daemon when it
asks for one, starts it again when it dies, and ends with the daemon. DESCRIPTOR is a socket that
listens. `detach`: the daemon answers already; returns at once and leaves the endpoint behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path

from headrace.api.access import keys
from headrace.api.server import worker
from headrace.base.files import replace_file
from headrace.base.signals import set_handler
from headrace.errors import HeadraceError
from headrace.lab.client import Lab
from headrace.lab.exporter import connect_lab
from headrace.lab.place import READY_S, Place, get_endpoint_file

# Interval at which the supervisor checks the files of the keys for changes, s.
LOOK_S = 0.5
# The wait before a worker that died is started again grows from the first to the second of these.
RESTART_S = (0.1, 5.0)
# A worker that lived for this long died of something new.
STEADY_S = 60.0
# For a connection to the daemon, which accepts at once.
CONNECT_S = 5.0


class Supervisor:
    """The supervisor of the endpoint of one lab. `daemon`: descriptor of the daemon's process."""

    def __init__(self, place: Place, listener: socket.socket, lab: Lab, daemon: int) -> None:
        self._place, self._listener, self._daemon = place, listener, daemon
        self._folder = place.data_dir or Path(lab.status()["data_dir"])
        self._region = lab.status()["region"]
        # The stamp first: keys that change in between are handed over again.
        self._stamp = keys.read_stamp(self._folder)
        self._keys = keys.as_message(self._folder)

    def run(self) -> None:
        """Runs until the daemon ends."""
        wait = RESTART_S[0]
        with self._publish_address():
            while True:
                start_s = time.monotonic()
                if not self._run_worker():
                    return
                if time.monotonic() - start_s > STEADY_S:
                    wait = RESTART_S[0]
                print(f"api: its worker ended and is started again in {wait:g} s", file=sys.stderr, flush=True)
                if select.select([self._daemon], [], [], wait)[0]:
                    return
                wait = min(wait * 2, RESTART_S[1])

    @contextlib.contextmanager
    def _publish_address(self):
        """Writes the file by which `headrace lab status` finds the endpoint, and removes it after
        the block if the daemon has ended; else `headrace lab up` needs it to start the endpoint
        again."""
        self._announce()
        try:
            yield
        finally:
            if select.select([self._daemon], [], [], 0)[0]:
                get_endpoint_file(self._folder).unlink(missing_ok=True)

    def _announce(self) -> None:
        """Writes the file that says where the endpoint is and which keys it has."""
        path = get_endpoint_file(self._folder)
        port = self._listener.getsockname()[1]
        document = {"pid": os.getpid(), "url": f"http://127.0.0.1:{port}", "region": self._region, "keys": self._stamp}
        replace_file(path, f"{json.dumps(document)}\n".encode(), 0o644)

    def _run_worker(self) -> bool:
        """Starts a worker and serves it until it or the daemon ends; returns whether the daemon
        still runs."""
        own_end, worker_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            try:
                set_handler(signal.SIGTERM, signal.SIG_DFL)
                own_end.close()
                os.close(self._daemon)
                worker.run(self._listener, worker_end, self._place, self._region, self._keys)
            except BaseException as error:
                print(f"api: {error!r}", file=sys.stderr)
                worker.end(1)
            worker.end(0)
        worker_end.close()
        worker_descriptor = os.pidfd_open(child)
        try:
            return self._watch(own_end, worker_descriptor)
        finally:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(worker_descriptor, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(worker_descriptor)
            own_end.close()

    def _watch(self, channel: socket.socket, worker_descriptor: int) -> bool:
        """Hands the worker connections and changed keys until it or the daemon ends; returns
        whether it was the worker. `worker_descriptor`: of the worker's process."""
        while True:
            ready = select.select([self._daemon, worker_descriptor, channel], [], [], LOOK_S)[0]
            if self._daemon in ready:
                return False
            if worker_descriptor in ready:
                return True
            try:
                if channel in ready:
                    if not channel.recv(16):
                        return True
                    self._hand_connection(channel)
                self._hand_keys(channel)
            except OSError:
                # The worker has just ended: its sockets are closed before its descriptor is ready.
                return True

    def _hand_connection(self, channel: socket.socket) -> None:
        """Hands the worker a new connection to the daemon, or the reason why there is none."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with connection:
            try:
                connection.settimeout(CONNECT_S)
                connection.connect(str(self._place.socket))
                connection.settimeout(None)
            except OSError as error:
                channel.send(worker.FAILED + f"no lab answers: {error.strerror or error}".encode()[:200])
                return
            socket.send_fds(channel, [worker.CONNECTION], [connection.fileno()])

    def _hand_keys(self, channel: socket.socket) -> None:
        """Hands the worker the keys once their files have changed; damaged ones are reported, and
        the old keys stay."""
        stamp = keys.read_stamp(self._folder)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._keys = keys.as_message(self._folder)
            descriptor = os.memfd_create("headrace-keys", os.MFD_CLOEXEC)
            with open(descriptor, "wb") as file:
                file.write(self._keys)
                file.flush()
                socket.send_fds(channel, [worker.KEYS], [file.fileno()])
        except HeadraceError as error:
            print(f"api: keys stay as they were: {error}", file=sys.stderr, flush=True)
        finally:
            # Commands that changed them wait for this. A worker that has just ended gets them at
            # its next start.
            self._announce()


def main() -> int:
    """Serves until the daemon ends."""
    path, folder, descriptor, detach = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:] == ["detach"]
    listener = socket.socket(fileno=descriptor)
    os.chdir("/")
    worker.prepare()
    try:
        lab, daemon = connect_lab(path, 0.0 if detach else READY_S)
        supervisor = Supervisor(Place(folder, Path(path)), listener, lab, daemon)
    except HeadraceError as error:
        print(f"api: {error}", file=sys.stderr)
        return error.exit_code
    lab.close()
    if detach and os.fork():
        os._exit(0)
    # `lab down` ends the daemon, and this with it; a signal ends it in order too.
    set_handler(signal.SIGTERM, lambda *_: sys.exit(0))
    supervisor.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
