"""Access to the page's server: 500 requests of strangers get no data, and its own page does."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import socket
import threading
import time
import urllib.request

import pytest
from waiting import patience

from headrace import planner
from headrace.ui.guard import MOST_BODY_BYTES, Keys
from headrace.ui.server import VIEWS, Cancelled, PageServer

QUESTION = json.dumps({"workload": "demo:day"}).encode()
API = ("plan", "load", "start", "open", "change")
# Words of the answers of the API, none of which a stranger may read.
SECRETS = (b"columns", b"result", b"options", b"gp3:200", b'workload"')
TRAVERSALS = (
    "/../etc/passwd", "/static/../server.py", "/static/%2e%2e/server.py", "/static/..%2fserver.py", "//etc/passwd", "/static/vendor/../../guard.py",
    "/static/%00", "/static/main.js%00.html", "/..\\server.py", "/static//main.js", "/etc/passwd", "/static", "/static/", "/page.css/../x", "/proc/self/environ",
)  # fmt: skip


def strange_requests(server: PageServer, cookie: str, spent: str):
    """Yields what a stranger sends: method, path, body, headers. Each breaks at least one rule."""
    host = f"127.0.0.1:{server.port}"
    for path in (f"/api/{name}" for name in API):
        yield "POST", path, QUESTION, {}  # nothing shown
        for wrong in (
            "evil.example",
            f"evil.example:{server.port}",
            "127.0.0.1",
            f"127.0.0.1:{server.port + 1}",
            f"[::1]:{server.port}",
            "",
            f"{host}.evil.example",
            "localhost",
        ):
            yield "POST", path, QUESTION, {"Cookie": cookie, "Host": wrong}
        for wrong in (
            "null",
            "https://evil.example",
            f"https://{host}",
            f"http://127.0.0.1:{server.port + 1}",
            f"http://{host}.evil.example",
            None,
            "",
        ):
            yield "POST", path, QUESTION, {"Cookie": cookie, "Origin": wrong}
        for wrong in ("cross-site", "same-site", "none", ""):
            yield "POST", path, QUESTION, {"Cookie": cookie, "Sec_Fetch_Site": wrong}
        for wrong in (None, "0", "", "none", "1", spent):
            yield "POST", path, QUESTION, {"Cookie": cookie, "X_Headrace": wrong}
        for wrong in (
            None,
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
            "application/json; charset=x",
        ):
            yield "POST", path, QUESTION, {"Cookie": cookie, "Content_Type": wrong}
        for wrong in (
            "",
            f"headrace-{server.port}=",
            f"headrace-{server.port}={spent}",
            "headrace=1",
            cookie[:-1],
            cookie + "x",
            cookie.swapcase(),
            cookie.replace(str(server.port), "1"),
            "\x7f=;;;==",
            "a" * 4_000,
        ):
            yield "POST", path, QUESTION, {"Cookie": wrong}
        for method in ("GET", "PUT", "DELETE", "OPTIONS", "PATCH", "HEAD", "TRACE"):
            yield method, path, b"", {"Cookie": cookie}
    for path in TRAVERSALS:
        yield "GET", path, b"", {"Cookie": cookie}
        yield "POST", path, QUESTION, {"Cookie": cookie}
    for token in (spent, "", "a", spent[:-1], None, 7, [spent], {"a": spent}):
        yield "POST", "/session", json.dumps({"token": token}).encode(), {}
        yield "POST", "/session", json.dumps({"token": token}).encode(), {"Origin": "https://evil.example"}
    rng = random.Random(27)
    for _ in range(240):
        kind = rng.choice(("cookie", "origin", "host"))
        junk = "".join(rng.choice("abcdefghijklmnop/:.=;%-_") for _ in range(rng.randrange(1, 60)))
        yield (
            "POST",
            f"/api/{rng.choice(API)}",
            QUESTION,
            {"Cookie": junk} if kind == "cookie" else {"Cookie": cookie, kind.title(): junk},
        )


def test_strangers_are_answered_with_nothing(server, visitor):
    """The visitor has opened the page; what others send afterwards has at most a part of what its requests have."""
    spent = visitor.cookie.partition("=")[2][::-1]
    count = 0
    for method, path, body, headers in strange_requests(server, visitor.cookie, spent):
        stranger = type(visitor)(server, key=visitor.key)  # so that each rule is met alone
        status, answer = stranger.send(method, path, body, **headers)
        assert status >= 400, (method, path, headers)
        assert not any(secret in answer for secret in SECRETS), (method, path, headers, answer)
        assert "set-cookie" not in stranger.headers and "access-control-allow-origin" not in stranger.headers
        assert len(answer) < 600
        count += 1
    assert count >= 500
    assert visitor.ask("start", {})[0] == 200  # and the page goes on


def test_a_token_is_good_once(server, visitor):
    again = type(visitor)(server)
    assert server.keys.token is None
    assert again.open(None) == 401 and again.cookie == ""


def test_no_cookie_opens_before_the_token_was_used():
    keys = Keys()
    assert not keys.opens(keys._cookie, keys._key)
    exchanged = keys.exchange(keys.token)
    assert exchanged is not None
    cookie, key = exchanged
    assert keys.opens(cookie, key)
    for wrong in ((None, key), (cookie, None), (cookie + "x", key), (cookie, key + "x"), (key, cookie)):
        assert not keys.opens(*wrong)


def test_a_large_body_is_refused_by_its_head_and_by_its_bytes(server, visitor):
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        head = _head(server, visitor.cookie, visitor.key, f"Content-Length: {10 << 20}")
        line.sendall(head)
        assert line.recv(4_096).split()[1] == b"413"
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        line.sendall(_head(server, visitor.cookie, visitor.key, "Transfer-Encoding: chunked"))
        part = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        with contextlib.suppress(OSError):  # the server may have closed it: said enough
            for _ in range(MOST_BODY_BYTES // 0x10000 + 2):
                line.sendall(part)
        answer = line.recv(65_536)
        assert not answer or answer.split()[1] == b"413"


def test_a_slow_body_is_not_waited_for(server, visitor, monkeypatch):
    monkeypatch.setattr("headrace.ui.guard.BODY_S", 0.2)
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        line.sendall(_head(server, visitor.cookie, visitor.key, "Content-Length: 100") + b"{")
        assert line.recv(4_096).split()[1] == b"408"


@pytest.mark.parametrize(
    "broken",
    [
        "X-A: b\r\n c",
        "X-A: \x00",
        "X A: b",
        "Content-Length: 1\r\nContent-Length: 2",
        "Content-Length: -1",
        "Transfer-Encoding: evil",
    ],
)
def test_heads_that_are_none_are_refused(server, visitor, broken):
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        line.sendall(_head(server, "", "none", broken) + b"{}")
        answer = line.recv(4_096)
        assert not answer or answer.split()[1][:1] == b"4"


def test_a_plan_that_nobody_waits_for_ends(server, visitor, monkeypatch):
    """The browser closes the line in the middle of a plan: the search ends, and the server goes on."""
    began, ended, search = threading.Event(), threading.Event(), planner.plan

    def search_until_told(load, progress, **settings):
        def go_on(done: float) -> None:
            began.set()
            while True:  # the middle of a plan lasts until the line is closed
                progress(done)
                time.sleep(0.01)

        try:
            return search(load, progress=go_on, **settings)
        except Cancelled:
            ended.set()
            raise

    monkeypatch.setattr(planner, "plan", search_until_told)
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        head = _head(server, visitor.cookie, visitor.key, f"Content-Length: {len(QUESTION)}", path="/api/plan")
        line.sendall(head + QUESTION)
        assert began.wait(patience()) and not ended.is_set()
    assert ended.wait(patience())
    assert visitor.ask("start", {})[0] == 200


def _head(server: PageServer, cookie: str, key: str, *more: str, path: str = "/api/upload") -> bytes:
    host = f"127.0.0.1:{server.port}"
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {host}",
        f"Origin: http://{host}",
        f"X-Headrace: {key}",
        "Content-Type: application/json",
        f"Cookie: {cookie}",
        *more,
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


@pytest.mark.parametrize("path", [*VIEWS, "/static/main.js", "/page.css"])
def test_files_have_a_strict_policy(server, path):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse()
    policy = answer.getheader("content-security-policy") or ""
    assert answer.status == 200 and answer.read()
    assert "default-src 'none'" in policy and "require-trusted-types-for 'script'" in policy
    assert "unsafe" not in policy.replace("'wasm-unsafe-eval'", "")  # WebAssembly is no script that a text becomes
    assert answer.getheader("x-content-type-options") == "nosniff"


def test_two_pages_have_keys_of_their_own():
    first, second = PageServer(), PageServer()
    try:
        assert first.port != second.port and first.keys.token != second.keys.token
        assert first.guard.cookie_name != second.guard.cookie_name
    finally:
        first.socket.close()
        second.socket.close()


def test_a_port_in_use_is_refused(server, call):
    code, _, err = call("page", "--no-open", "--port", str(server.port))
    assert code == 3 and f"port {server.port}" in err and "--port" in err


DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


@pytest.mark.parametrize("name", DISPLAYS)
def test_a_browser_is_opened_once_the_page_answers(call, monkeypatch, name):
    """A browser of the terminal returns when it is closed, and asks for the page before."""
    servers, statuses = [], []

    class RecordedServer(PageServer):
        def __init__(self, *arguments) -> None:
            super().__init__(*arguments)
            servers.append(self)

    def open_and_ask(address: str) -> None:
        try:
            statuses.append(urllib.request.urlopen(address, timeout=patience(10)).status)
        finally:
            servers[0].stop()

    monkeypatch.setattr("headrace.ui.server.PageServer", RecordedServer)
    monkeypatch.setattr("webbrowser.open", open_and_ask)
    for variable in DISPLAYS:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(name, "x")
    assert call("page")[0] == 0 and statuses == [200]


def test_no_browser_is_opened_without_a_display(call, monkeypatch):
    opened = []

    def run(server: PageServer) -> None:
        server.socket.close()
        for thread in threading.enumerate():
            if thread.name == "headrace-page-browser":
                thread.join()

    monkeypatch.setattr(PageServer, "run", run)
    monkeypatch.setattr(PageServer, "is_serving", True)
    monkeypatch.setattr("webbrowser.open", opened.append)
    for variable in DISPLAYS:
        monkeypatch.delenv(variable, raising=False)
    code, _, err = call("page")
    assert code == 0 and "http://127.0.0.1:" in err and opened == []
    monkeypatch.setenv("DISPLAY", ":0")
    assert call("page", "--no-open")[0] == 0 and opened == []
    assert call("page")[0] == 0 and len(opened) == 1
