"""The relay that delays: bytes come whole, in order and late, and those on their way are dropped when it stops."""

from __future__ import annotations

import random
import socket
import threading
import time

import pytest

from relay import Relay


@pytest.fixture
def echo():
    """A server that sends back what it gets, and counts it."""
    listener = socket.create_server(("127.0.0.1", 0))
    got = bytearray()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    while part := connection.recv(65_536):
                        got.extend(part)
                        connection.sendall(part)
                except OSError:
                    pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname(), got
    listener.close()


def received(connection: socket.socket, size: int) -> bytes:
    result = bytearray()
    while len(result) < size and (part := connection.recv(65_536)):
        result.extend(part)
    return bytes(result)


def test_bytes_come_whole_and_in_order(echo):
    address, _ = echo
    sent = random.Random(3).randbytes(1_000_000)
    with Relay(address, 0.01) as relay, socket.create_connection(("127.0.0.1", relay.port), 20) as connection:
        writer = threading.Thread(target=connection.sendall, args=(sent,))
        writer.start()
        assert received(connection, len(sent)) == sent
        writer.join()


def test_a_round_trip_takes_twice_the_delay_at_least(echo):
    address, _ = echo
    with Relay(address, 0.05) as relay, socket.create_connection(("127.0.0.1", relay.port), 20) as connection:
        for _ in range(3):
            began = time.monotonic()
            connection.sendall(b"x")
            assert received(connection, 1) == b"x"
            assert time.monotonic() - began >= 0.1  # never sooner; how much later depends on the machine


def test_what_is_on_its_way_is_dropped(echo):
    address, got = echo
    relay = Relay(address, 30.0)  # longer than this test lasts: nothing can have arrived before the stop
    with relay, socket.create_connection(("127.0.0.1", relay.port), 20) as connection:
        connection.sendall(b"x" * 100_000)
        time.sleep(0.1)  # so that the relay holds it
        relay.stop()
        with pytest.raises(ConnectionError):
            while connection.recv(1) or True:
                connection.sendall(b"y")
    assert not got


def test_a_target_that_is_not_there_resets():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        with Relay(probe.getsockname()) as relay, socket.create_connection(("127.0.0.1", relay.port), 20) as connection:
            assert closed(connection)


def closed(connection: socket.socket) -> bool:
    """Returns whether the other side ended the connection, with or without a reset."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
