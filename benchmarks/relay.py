"""A TCP relay that delays, for machines without the kernel's netem.

Each byte is forwarded `delay_s` after its arrival, in both directions, so a round trip takes twice
that. A stopped relay drops the bytes on their way and resets its connections, like a cut line.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
import time

from headrace.errors import CouldNotRun

CHUNK = 65_536  # bytes read at once: the usual size of a pipe
# Chunks that one direction holds at most, 64 MiB: 1 Gbit/s for half a second of delay. A full one
# stops reading, as a line of limited length does.
HELD = 1_024
START_S = 10.0  # a guess: it takes milliseconds
# l_onoff 1, l_linger 0: closing resets and drops what the kernel still holds (socket(7)).
RESET = struct.pack("ii", 1, 0)


class Relay:
    """Forwards a port of `host` to `target`, in a thread of its own. `delay_s` may be changed while
    it runs.

    >>> relay = Relay(("127.0.0.1", 3306), delay_s=0.02)                        # doctest: +SKIP
    >>> with relay:                                                             # doctest: +SKIP
    ...     print(relay.port)
    """

    def __init__(self, target: tuple[str, int], delay_s: float = 0.0, host: str = "127.0.0.1") -> None:
        self.target, self.delay_s, self.host = target, delay_s, host
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._error: OSError | None = None
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self._open: set[asyncio.StreamWriter] = set()

    def __enter__(self) -> Relay:
        """Begins to listen, at a free port, which is `port` from then on. Raises CouldNotRun."""
        self._thread.start()
        if not self._ready.wait(START_S) or self._error is not None:
            raise CouldNotRun(f"relay at {self.host}", f"cannot listen: {self._error or 'no answer'}", "bind(2)", "")
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Drops all bytes on their way. It can be called twice."""
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # the loop is closed already
                self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _run(self) -> None:
        """Listens and forwards until `stop`, in the relay's thread; an error of listening is kept
        for the thread that waits."""
        asyncio.set_event_loop(self._loop)
        try:
            server = self._loop.run_until_complete(
                asyncio.start_server(self._accept, self.host, self.port, limit=CHUNK)
            )
        except OSError as error:
            self._error = error
            self._ready.set()
            return
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        try:
            self._loop.run_forever()
        finally:
            server.close()
            for writer in self._open:
                writer.transport.abort()
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forwards one connection in both directions, until a side ends it or the relay stops."""
        try:
            onward_reader, onward = await asyncio.open_connection(*self.target, limit=CHUNK)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, onward}
        self._open |= ends
        for end in ends:
            sock: socket.socket = end.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._one_way(reader, onward))
                group.create_task(self._one_way(onward_reader, writer))
        except* (OSError, asyncio.CancelledError):
            pass
        finally:
            for end in ends:
                end.transport.abort()
            self._open -= ends

    async def _one_way(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forwards one direction. It ends with an error when either side ends, and so ends the
        other direction too."""
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(HELD)

        async def hand_on() -> None:
            while True:
                due, part = await queue.get()
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                if not part:
                    raise ConnectionResetError
                writer.write(part)
                await writer.drain()

        async with asyncio.TaskGroup() as group:
            group.create_task(hand_on())
            while True:
                part = await reader.read(CHUNK)
                await queue.put((time.monotonic() + self.delay_s, part))
                if not part:
                    return
