"""Runs the worker: HTTP on the loopback, without rights."""

from __future__ import annotations

import array
import codecs
import contextlib
import gc
import os
import resource
import socket
import sys
import threading
from collections.abc import Mapping

from headrace.api.access.keys import KeyPair, of_message
from headrace.api.handling import load
from headrace.api.protocol.shapes import SERVICES, refused_operations, service
from headrace.api.server.connection import HttpServer
from headrace.api.server.dispatch import Endpoint
from headrace.api.server.labs import Broker, HandedLab, LabPool
from headrace.errors import HeadraceError
from headrace.lab.exporter import drop_rights
from headrace.lab.place import Place

# Messages of the supervisor: a letter and text; a descriptor comes with K and F.
KEYS, CONNECTION, FAILED = b"K", b"F", b"E"
MAX_MESSAGE_BYTES = 4096
# Most bytes of all keys: 100 users with 10 policies of 6,144 characters each, and some room.
MAX_KEYS_BYTES = 16 << 20
# New objects after which Python looks for circles among them. A guess: some hundred requests.
GC_OBJECTS = 20_000


def prepare() -> None:
    """Loads all that requests need. The worker may not be able to read this program's own files."""
    for name in SERVICES:
        service(name)
    refused_operations()
    load()
    for codec in ("ascii", "latin-1", "unicode_escape", "utf-8"):
        codecs.lookup(codec)


def run(listener: socket.socket, channel: socket.socket, place: Place, region: str, keys: bytes) -> None:
    """Serves until the supervisor ends."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    drop_rights()
    broker = Broker(channel)
    endpoint = Endpoint(LabPool(lambda: HandedLab(place, broker.connect)), of_message(keys), region)
    # Loaded modules stay: the collector need not look through them again and again.
    gc.collect()
    gc.freeze()
    # Objects of a request have no circles: looking for them at every 700th object is useless.
    gc.set_threshold(GC_OBJECTS, *gc.get_threshold()[1:])
    threading.Thread(target=HttpServer(listener, endpoint).serve_forever, daemon=True).start()
    listen_to(channel, broker, endpoint)


def listen_to(channel: socket.socket, broker: Broker, endpoint: Endpoint) -> None:
    """Takes what the supervisor sends until it ends."""
    while True:
        message, descriptors = received(channel)
        if not message:
            return
        kind, text = message[:1], message[1:].decode("utf-8", "replace")
        if kind == CONNECTION and descriptors:
            broker.answered(socket.socket(fileno=descriptors[0]))
        elif kind == KEYS and descriptors:
            with contextlib.suppress(HeadraceError, ValueError):
                endpoint.keys = _keys(descriptors[0])
        else:
            broker.answered(text or "the lab cannot be reached")


def _keys(descriptor: int) -> Mapping[str, KeyPair]:
    with open(descriptor, "rb") as file:
        file.seek(0)
        return of_message(file.read(MAX_KEYS_BYTES))


def received(channel: socket.socket) -> tuple[bytes, list[int]]:
    """Receives a message and the descriptors that came with it; b"" at the end."""
    numbers = array.array("i")
    try:
        message, ancillary, _, _ = channel.recvmsg(MAX_MESSAGE_BYTES, socket.CMSG_SPACE(numbers.itemsize))
    except OSError:
        return b"", []
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
    return message, list(numbers)


def end(code: int) -> None:
    """Ends at once: threads that still answer must not hold up the end."""
    sys.stderr.flush()
    os._exit(code)
