"""A page's server in this process, and requests as raw as a stranger sends them."""

from __future__ import annotations

import http.client
import json
import re
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from browsers import lacking, launched
from pages import is_bad
from waiting import patience, wait_until

from headrace.ui.server import PageServer

sys.path.insert(0, str(Path(__file__).parent))  # what the tests of this folder share

# Chromium drops requests, also those to this machine, when an interface comes or goes, as tests of other folders make
# them. An address is opened anew then, at most MOST_VISITS times: changes are seconds apart, and a page loads in less.
# Requests that a change drops after that are no fault of the page: their lines in the console are no complaints.
NETWORK_CHANGED = re.compile("ERR_(NETWORK_CHANGED|INTERNET_DISCONNECTED)")
MOST_VISITS = 5


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
        for _ in range(MOST_VISITS):
            page, words, dropped = context.new_page(), [], []
            page.set_default_timeout(1_000 * patience(30.0))
            listen(page, words, dropped)
            load(page, address, ready, dropped)
            if not dropped:
                complaints.append(words)
                if not states:
                    states.append(context.storage_state())
                return page
            page.close()
        raise AssertionError(f"/{address}: the network changed in each of {MOST_VISITS} visits")

    def listen(page, words: list[str], dropped: list[str]) -> None:
        """Gathers complaints of a page, and its requests that were dropped as the network changed."""
        page.on(
            "console",
            lambda line: words.append(line.text) if is_bad(line) and not NETWORK_CHANGED.search(line.text) else None,
        )
        page.on("pageerror", lambda error: words.append(str(error)))
        page.on("request", lambda request: None if is_own(request.url) else words.append(request.url))
        page.on(
            "requestfailed",
            lambda request: dropped.append(request.url) if NETWORK_CHANGED.search(request.failure or "") else None,
        )

    def is_own(url: str) -> bool:
        return f"127.0.0.1:{server.port}" in url or url.startswith("data:")

    def load(page, address: str, ready: str, dropped: list[str]) -> None:
        """Opens the address and waits until `ready` is seen, or a request was dropped."""
        from playwright.sync_api import Error

        token = server.keys.token  # good once: None when it is exchanged
        try:
            page.goto(f"http://127.0.0.1:{server.port}/{address}" + (f"#token={token}" if token else ""))
        except Error as error:
            if not NETWORK_CHANGED.search(str(error)):
                raise
            dropped.append(address)
            return
        place = page.locator(ready).first
        wait_until(lambda: dropped or place.is_visible(), f"{ready} of /{address}", pause_s=0.05)

    yield open_page
    for context in contexts:
        context.close()
    assert not [words for words in complaints if words]
