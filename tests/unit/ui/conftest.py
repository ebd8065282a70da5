"""A page's server in this process, and requests as raw as a stranger sends them."""

from __future__ import annotations

import http.client
import json
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from browsers import lacking, launched
from pages import is_bad
from waiting import patience

from headrace.ui.server import PageServer

sys.path.insert(0, str(Path(__file__).parent))  # what the tests of this folder share


@dataclass
class Visitor:
    """A browser of the page's own, as far as its requests go."""

    server: PageServer
    cookie: str = ""
    key: str = "none"
    headers: dict[str, str] = field(default_factory=dict)

    def send(self, method: str, path: str, body: bytes = b"", **headers: str | None) -> tuple[int, bytes]:
        """Sends one request with the headers of the page; None leaves one out. Returns status and body."""
        host = f"127.0.0.1:{self.server.port}"
        usual: dict[str, str | None] = {"Host": host}
        if method == "POST":
            usual |= {
                "Origin": f"http://{host}",
                "Sec-Fetch-Site": "same-origin",
                "X-Headrace": self.key,
                "Content-Type": "application/json",
            }
        if self.cookie:
            usual["Cookie"] = self.cookie
        usual |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in usual.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body or None)
            answer = connection.getresponse()
            self.headers = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, answer.read()
        finally:
            connection.close()

    def ask(self, name: str, question: object) -> tuple[int, dict]:
        """Asks a question of the page. Returns status and answer."""
        status, body = self.send("POST", f"/api/{name}", json.dumps(question).encode())
        return status, json.loads(body)

    def open(self, token: str | None) -> int:
        """Exchanges the token for the cookie. Returns the status."""
        status, body = self.send("POST", "/session", json.dumps({"token": token}).encode())
        self.key = json.loads(body).get("key", self.key)
        if "set-cookie" in self.headers:
            self.cookie = self.headers["set-cookie"].partition(";")[0]
        return status


@pytest.fixture
def server() -> Iterator[PageServer]:
    """A page's server whose address nobody has opened."""
    page = PageServer()
    thread = threading.Thread(target=page.run)
    thread.start()
    yield page
    page.stop()
    thread.join(30)


@pytest.fixture
def visitor(server: PageServer) -> Visitor:
    """A browser that opened the address."""
    browser = Visitor(server)
    assert browser.open(server.keys.token) == 200
    return browser


@pytest.fixture(scope="module")
def browser() -> Iterator:
    """Debian's Chromium; a test is skipped by name where it is not installed."""
    if missing := lacking():
        pytest.skip(missing)
    with launched() as program:
        yield program


@pytest.fixture
def visit(browser, server: PageServer):
    """Opens an address of the page in a new window: the first by the token, the others by its cookie. Fails at the end
    where the console had an error or anything was asked of another origin."""
    contexts, complaints, states = [], [], []

    def open_page(address: str, width: int = 1400, ready: str = ".cards", **more):
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            storage_state=states[0] if states else None,
            reduced_motion="reduce",
            **more,
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(1_000 * patience(30.0))
        page.on("console", lambda line: complaints.append(line.text) if is_bad(line) else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda request: (
                complaints.append(request.url)
                if f"127.0.0.1:{server.port}" not in request.url and not request.url.startswith("data:")
                else None
            ),
        )
        page.goto(f"http://127.0.0.1:{server.port}/{address}" + (f"#token={server.keys.token}" if not states else ""))
        page.locator(ready).first.wait_for()
        if not states:
            states.append(context.storage_state())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not complaints
