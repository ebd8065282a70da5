"""Lines of JSON over a socket: framing and errors, against a server of a few lines that answers
whatever a test wants. No root, no daemon.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import CouldNotRun, InputError
from headrace.lab import Lab, LabRefused, NoLab
from headrace.lab import wire as wire_module
from headrace.lab.wire import LabUnavailable

Behaviour = Callable[[socket.socket, dict], None]


class Server:
    """Answers each line of each connection with `behaviour(connection, call)`; ends the connection
    when that raises EOFError.
    """

    def __init__(self, folder: Path, behaviour: Behaviour) -> None:
        self.calls: list[dict] = []
        self.connections = 0
        self.behaviour = behaviour
        self.path = folder / "lab.sock"
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(self.path))
        self.socket.listen()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.connections += 1
            with connection, contextlib.suppress(EOFError, OSError):
                for line in connection.makefile("rb"):
                    self.calls.append(json.loads(line))
                    self.behaviour(connection, self.calls[-1])

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join(5)
        self.path.unlink(missing_ok=True)


@pytest.fixture
def serve(tmp_path):
    """serve(behaviour) -> Server in tmp_path."""
    servers = []

    def make(behaviour: Behaviour) -> Server:
        servers.append(Server(tmp_path, behaviour))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


def say(connection: socket.socket, answer: object) -> None:
    connection.sendall(json.dumps(answer).encode() + b"\n")


def echo(connection: socket.socket, call: dict) -> None:
    say(connection, {"id": call["id"], "result": {"call": call["call"], "args": call["args"]}})


def test_call_and_result(serve, tmp_path):
    server = serve(echo)
    with Lab(tmp_path) as lab:
        assert lab.create("gp2:500", name="db", balance_percent=5.0) == {
            "call": "volume.create",
            "args": {"spec": "gp2:500", "name": "db", "balance_percent": 5.0, "multi_attach": False},
        }
        assert lab.detach("db") == {
            "call": "volume.detach",
            "args": {"volume": "db", "force": False, "waits": False},
        }
        assert lab.attach("db") == {
            "call": "volume.attach",
            "args": {"volume": "db", "unpaced": False, "probe": True},
        }
        assert lab.get_pid() == os.getpid()
    assert [call["id"] for call in server.calls] == [1, 2, 3]
    assert server.connections == 1


def test_a_token_and_a_dry_run_stand_next_to_the_arguments(serve, tmp_path):
    server = serve(echo)
    with Lab(tmp_path) as lab:
        lab.call("volume.create", token="t-1", size_gib=4)
        lab.call("volume.create", dry_run=True, size_gib=4)
        lab.call("volume.create", size_gib=4)
    assert server.calls == [
        {"id": 1, "call": "volume.create", "args": {"size_gib": 4}, "token": "t-1"},
        {"id": 2, "call": "volume.create", "args": {"size_gib": 4}, "dry_run": True},
        {"id": 3, "call": "volume.create", "args": {"size_gib": 4}},
    ]


def test_a_refusal_also_says_what_aws_says(serve, tmp_path):
    problem = {"kind": "in-use", "value": "db", "rule": "is attached", "source": "EC2", "hint": "Detach it."}
    words = {"code": "VolumeInUse", "message": "Volume vol-1 is currently attached to i-1"}
    serve(lambda connection, call: say(connection, {"id": call["id"], "error": problem | words}))
    with Lab(tmp_path) as lab, pytest.raises(LabRefused) as refused:
        lab.delete("db")
    for error in (refused.value, pickle.loads(pickle.dumps(refused.value))):
        assert {"code": error.code, "message": error.message} == words


@pytest.mark.parametrize("kind", ["invalid-parameter", "incorrect-state", "in-use", "not-found"])
def test_refusals_keep_their_parts(serve, tmp_path, kind):
    error = {"kind": kind, "value": "db", "rule": "is in use", "source": "EC2", "hint": "Detach it."}
    serve(lambda connection, call: say(connection, {"id": call["id"], "error": error}))
    with Lab(tmp_path) as lab, pytest.raises(LabRefused) as raised:
        lab.delete("db")
    refusal = raised.value
    assert (refusal.kind, refusal.value, refusal.rule, refusal.source, refusal.hint, refusal.exit_code) == (
        kind,
        "db",
        "is in use",
        "EC2",
        "Detach it.",
        2,
    )
    again = pickle.loads(pickle.dumps(refusal))
    assert isinstance(again, LabRefused) and (again.kind, str(again)) == (kind, str(refusal))
    assert isinstance(refusal, InputError)


def test_unavailable_is_exit_code_3(serve, tmp_path):
    serve(
        lambda connection, call: say(
            connection, {"id": call["id"], "error": {"kind": "unavailable", "value": "journal", "rule": "disk full"}}
        )
    )
    with Lab(tmp_path) as lab, pytest.raises(CouldNotRun) as raised:
        lab.status()
    assert (raised.value.value, raised.value.rule, raised.value.exit_code) == ("journal", "disk full", 3)


def test_no_lab_says_how_to_start_one(tmp_path):
    with pytest.raises(NoLab) as raised:
        Lab(tmp_path).status()
    assert raised.value.exit_code == 3
    assert f"headrace lab up --lab {tmp_path}" in raised.value.hint


def test_socket_of_a_daemon_that_died(tmp_path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "lab.sock"))
    listener.close()
    with pytest.raises(NoLab):
        Lab(tmp_path).status()


def test_a_file_in_the_place_of_the_socket(tmp_path):
    (tmp_path / "lab.sock").write_text("not a socket")
    with pytest.raises(NoLab):
        Lab(tmp_path).status()


def test_answers_in_pieces_and_together(serve, tmp_path):
    def behaviour(connection, call):
        text = json.dumps({"id": call["id"], "result": {"text": "é" * 1000}}).encode() + b"\n"
        for at in range(0, len(text), 7):
            connection.sendall(text[at : at + 7])

    serve(behaviour)
    with Lab(tmp_path) as lab:
        for _ in range(3):
            assert lab.call("metrics.totals") == {"text": "é" * 1000}


def test_answers_longer_than_a_call_may_be(serve, tmp_path):
    rows = [[i, i * 0.5] for i in range(100_000)]
    serve(
        lambda connection, call: say(connection, {"id": call["id"], "result": {"columns": ["t_s", "x"], "rows": rows}})
    )
    with Lab(tmp_path) as lab:
        assert lab.metrics("db")["rows"] == rows


def test_an_answer_without_end_is_bounded(serve, tmp_path, monkeypatch):
    monkeypatch.setattr(wire_module, "MAX_ANSWER_BYTES", 1 << 20)

    def behaviour(connection, call):
        while True:
            connection.sendall(b"x" * 65536)

    serve(behaviour)
    with Lab(tmp_path) as lab, pytest.raises(CouldNotRun, match="longer than"):
        lab.status()


@pytest.mark.parametrize(
    "line",
    [
        b"not json\n", b"[]\n", b"{}\n", b"null\n", b'{"id": 99, "result": {}}\n', b'{"id": 1, "result": 5}\n', b'{"id": 1, "error": "no"}\n',
        b'{"id": 1}\n', b"\xff\xfe\n", b"[" * 100_000 + b"\n", b'{"id": true, "result": {}}\n',
    ],
    ids=lambda line: repr(line[:20]),
)  # fmt: skip
def test_nonsense_is_refused_in_words(serve, tmp_path, line):
    serve(lambda connection, call: connection.sendall(line))
    with Lab(tmp_path) as lab, pytest.raises(CouldNotRun) as raised:
        lab.status()
    assert raised.value.source.endswith("lab-protocol.md")


def test_an_answer_that_never_comes(serve, tmp_path):
    release = threading.Event()
    serve(lambda connection, call: release.wait(10))
    began = time.monotonic()
    with Lab(tmp_path, timeout_s=0.2) as lab, pytest.raises(CouldNotRun, match=r"did not answer within 0\.2 s"):
        lab.status()
    release.set()
    assert time.monotonic() - began < 5


def test_a_late_answer_is_not_taken_for_the_next(serve, tmp_path):
    """The connection of a call that timed out is given up: its answer can come at any time."""

    def behaviour(connection, call):
        if call["call"] == "slow":
            time.sleep(0.4)
        echo(connection, call)

    serve(behaviour)
    with Lab(tmp_path, timeout_s=5) as lab:
        with pytest.raises(CouldNotRun):
            lab.call("slow", 0.1)
        assert lab.call("fast")["call"] == "fast"


def test_the_daemon_ends_in_the_middle_of_a_call(serve, tmp_path):
    def behaviour(connection, call):
        connection.sendall(b'{"id": 1, "res')
        raise EOFError

    serve(behaviour)
    with Lab(tmp_path) as lab, pytest.raises(CouldNotRun, match="whether it was done is not known"):
        lab.status()


def test_a_restart_between_two_calls_goes_unnoticed(serve, tmp_path):
    first = serve(lambda connection, call: (echo(connection, call), (_ for _ in ()).throw(EOFError))[0])
    lab = Lab(tmp_path)
    assert lab.call("one")["call"] == "one"
    first.close()
    second = serve(echo)
    assert lab.call("two")["call"] == "two"
    assert [call["call"] for call in second.calls] == ["two"]
    lab.close()


def test_refused_at_the_door(tmp_path):
    """Too many callers, or one who may not: the daemon says so and hangs up, maybe before the call
    was sent.
    """
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "lab.sock"))
    server.listen()

    def refuse():
        for _ in range(20):
            connection, _ = server.accept()
            say(
                connection,
                {
                    "id": None,
                    "error": {
                        "kind": "insufficient-permission",
                        "value": "caller",
                        "rule": "user 7 may not use this lab",
                    },
                },
            )
            connection.close()

    thread = threading.Thread(target=refuse, daemon=True)
    thread.start()
    for _ in range(20):
        with Lab(tmp_path) as lab, pytest.raises((CouldNotRun, LabRefused)) as raised:
            lab.status()
        # Either its words, or (its kernel buffer was thrown away with our line unread) that the
        # connection was lost.
        assert "user 7" in str(raised.value) or "lost" in str(raised.value)
    thread.join(5)
    server.close()


def test_calls_of_many_threads_do_not_mix(serve, tmp_path):
    serve(echo)
    wrong = []
    with Lab(tmp_path) as lab:

        def work(number: int) -> None:
            for i in range(50):
                answer = lab.call("x", number=number, i=i)
                if answer["args"] != {"number": number, "i": i}:
                    wrong.append(answer)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert not wrong


@pytest.mark.parametrize("value", ["x" * (1 << 20), float("nan"), "\udcff", object()])
def test_arguments_that_cannot_be_sent(serve, tmp_path, value):
    server = serve(echo)
    with Lab(tmp_path) as lab, pytest.raises(InputError):
        lab.call("volume.create", spec=value)
    assert not server.calls


def test_a_socket_of_somebody_else(serve, tmp_path):
    os.chmod(serve(echo).path, 0)
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)  # nobody: root may use every socket
    try:
        with pytest.raises(NoLab, match="may not use"):
            Lab(tmp_path).status()
    finally:
        os.seteuid(before)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False), TEXT
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=10,
)


@given(
    args=st.dictionaries(
        TEXT.filter(lambda key: key not in ("name", "timeout_s")),
        JSON.filter(lambda value: value is not None),
        max_size=5,
    )
)
def test_what_is_said_arrives(tmp_path_factory, args):
    """Any JSON goes there and back unchanged: quotes, newlines, lines of every length."""
    server = Server(tmp_path_factory.mktemp("any"), echo)
    try:
        with Lab(server.path.parent) as lab:
            assert lab.call("any", **args)["args"] == args
    finally:
        server.close()


@pytest.mark.parametrize(
    "error",
    [
        LabRefused("in-use", "db", "is attached", "the lab", "Detach it."),
        CouldNotRun("db", "is gone", "", "Look.", 130),
        LabUnavailable("db", "is gone", "", "Look.", "Unavailable"),
        InputError("x", "is wrong", kind="invalid-parameter"),
    ],
)
def test_a_refusal_with_another_hint_is_the_same_refusal(error):
    other = error.amend(hint="Do that.")
    assert type(other) is type(error) and other.hint == "Do that." and error.hint != "Do that."
    for name in ("value", "rule", "source", "exit_code", "kind"):
        assert getattr(other, name) == getattr(error, name)
    assert error.amend(value="y").value == "y" and "y: " in str(error.amend(value="y"))
