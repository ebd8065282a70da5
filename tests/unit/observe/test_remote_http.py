"""Troubles between here and a server of Prometheus: logins, redirects, other servers, refusals,
answers without an end; and no question asks for more points than Prometheus answers. The server
here speaks the real protocol, and is no other."""

from __future__ import annotations

import base64
import gzip
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from headrace.errors import CouldNotRun, InputError
from headrace.observe.formats import import_file
from headrace.observe.remote import http
from headrace.observe.remote.prometheus import MOST_POINTS, PREFIX, fetch, parse_target
from headrace.observe.remote.span import TimeSpan

UNTIL = 1_763_719_200.0  # 2025-11-21 10:00 UTC
LABELS = {"instance": "db1:9100", "job": "node", "device": "nvme1n1"}
# Growth of each counter in a second.
GROWTH = {
    "node_disk_reads_completed_total": 100.0,
    "node_disk_writes_completed_total": 50.0,
    "node_disk_read_bytes_total": 100 * 16_384.0,
    "node_disk_written_bytes_total": 50 * 16_384.0,
}


class Server(ThreadingHTTPServer):
    """A server with an answer for each path, and what it was asked."""

    def __init__(self, answer: Callable[[BaseHTTPRequestHandler], None]) -> None:
        self.requests: list[tuple[str, dict[str, list[str]], dict[str, str]]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(handler) -> None:
                parts = urlsplit(handler.path)
                self.requests.append((parts.path, parse_qs(parts.query), dict(handler.headers)))
                answer(handler)

            def log_message(handler, format: str, *args: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def target(self) -> str:
        return f"{PREFIX}http://127.0.0.1:{self.server_port}?instance=db1"


def send(handler: BaseHTTPRequestHandler, code: int, body: bytes, **headers: str) -> None:
    handler.send_response(code)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def counting(scraped_s: float = 60.0, packed: bool = False) -> Callable[[BaseHTTPRequestHandler], None]:
    """Answers as a Prometheus that has scraped one host for ever, and refuses more points than the real one does."""

    def result(name: str, times: list[float], value: Callable[[float], float]) -> list[dict]:
        named = {} if name.startswith("timestamp") else {"__name__": name}
        return [{"metric": named | LABELS, "values": [[at, f"{value(at):.15g}"] for at in times]}] if times else []

    def data(path: str, texts: dict[str, list[str]]) -> dict:
        if path == "/api/v1/series":
            matches = [entry.partition("{")[0] for entry in texts["match[]"]]
            return {"data": [{"__name__": name} | LABELS for name in matches if name in GROWTH]}
        query = texts["query"][0]
        name = next((name for name in GROWTH if name in query), "")

        def sample(at: float) -> float:
            return at // scraped_s * scraped_s

        if path == "/api/v1/query":
            end = sample(float(texts["time"][0]))
            times = [end - scraped_s * number for number in range(9, -1, -1)]
            return {"data": {"resultType": "matrix", "result": result(name, times, lambda at: GROWTH[name] * at)}}
        begin, end, step = (float(texts[key][0]) for key in ("start", "end", "step"))
        count = int((end - begin) / step) + 1
        if count > MOST_POINTS:  # web/api/v1/api.go
            error = "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution"
            return {"status": "error", "errorType": "bad_data", "error": error}
        times = [begin + step * number for number in range(count)] if name else []
        if "timestamp" in query:
            return {"data": {"resultType": "matrix", "result": result("timestamp", times, sample)}}
        return {"data": {"resultType": "matrix", "result": result(name, times, lambda at: GROWTH[name] * sample(at))}}

    def answer(handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        document = {"status": "success"} | data(parts.path, parse_qs(parts.query))
        content = json.dumps(document).encode()
        headers = {"Content_Encoding": "gzip"} if packed else {}
        send(
            handler,
            400 if document["status"] == "error" else 200,
            gzip.compress(content) if packed else content,
            **headers,
        )

    return answer


@pytest.fixture
def serving(monkeypatch, tmp_path) -> Iterator[Callable[..., Server]]:
    """Starts servers, and ends them. Nobody's ~/.netrc is read."""
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.delenv(http.TOKEN, raising=False)
    running: list[Server] = []

    def start(answer: Callable[[BaseHTTPRequestHandler], None]) -> Server:
        running.append(Server(answer))
        return running[-1]

    yield start
    for entry in running:
        entry.shutdown()
        entry.server_close()


def test_fourteen_days_come_in_slices(serving):
    """20,160 minutes are two slices of each counter; each point is that of a scrape, at its own time."""
    server = serving(counting())
    recording, step_s = fetch(server.target, TimeSpan(until=UNTIL))
    document = json.loads(recording.text)
    reads = [
        row for row in document["data"]["result"] if row["metric"]["__name__"] == "node_disk_reads_completed_total"
    ]
    times = sorted(at for read in reads for at, _ in read["values"])
    assert step_s == 60 and 20_155 <= len(times) <= 20_165 and all(at % 60 == 0 for at in times)
    ranges = [request for path, request, _ in server.requests if path == "/api/v1/query_range"]
    points = [(float(row["end"][0]) - float(row["start"][0])) / float(row["step"][0]) + 1 for row in ranges]
    assert max(points) <= MOST_POINTS and sum(point > MOST_POINTS / 2 for point in points) >= 2


def test_a_longer_time_gets_longer_steps(serving):
    """Scraped every 15 s, fourteen days are 80,640 samples: a point a minute is asked for."""
    _, step_s = fetch(serving(counting(15.0)).target, TimeSpan(until=UNTIL))
    assert step_s == 60


def test_the_rates_are_right(serving):
    """Rates are right of packed answers, too."""
    server = serving(counting(15.0, packed=True))
    points = import_file(server.target, interval_s=120.0).points
    assert points["reads_per_s"].to_list() == pytest.approx([100.0] * points.height)
    assert points["read_kib"].to_list() == pytest.approx([16.0] * points.height)
    assert set(points["duration_s"]) == {120.0}


def status(code: int, body: bytes = b"", **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    return lambda handler: send(handler, code, body, **headers)


@pytest.mark.parametrize(
    ("answer", "kind", "message", "hint"),
    [
        (status(401), InputError, "asks for a login", "netrc"),
        (status(403), InputError, "refuses this login", http.TOKEN),
        (status(302, Location="https://login.example/"), InputError, "sends to https://login.example/", "login page"),
        (status(200, b"<html>Grafana</html>"), InputError, "is not the API of a Prometheus", "/prometheus"),
        (status(404, b"404 page not found"), InputError, "HTTP 404", "HOST:9090"),
        (status(503, b"overloaded"), CouldNotRun, "cannot answer now: HTTP 503", "again"),
        (status(200, b'{"status": "success", "data": 7}'), InputError, "does not list series", "Prometheus"),
        (
            status(422, b'{"status": "error", "errorType": "execution", "error": "too many samples"}'),
            InputError,
            "refuses the query: execution: too many samples",
            "--last",
        ),
        (status(200, b"not gzip", Content_Encoding="gzip"), CouldNotRun, "damaged", "again"),
    ],
)
def test_refusals_are_told_in_plain_words(serving, answer, kind, message, hint):
    with pytest.raises(kind, match=message) as caught:
        import_file(serving(answer).target)
    assert hint in caught.value.hint and "127.0.0.1" in caught.value.value


def test_nobody_answers(serving):
    server = serving(counting())
    server.shutdown()
    server.server_close()
    with pytest.raises(CouldNotRun, match="cannot be reached: Connection refused"):
        import_file(server.target)


def test_an_answer_without_an_end_is_ended(serving, monkeypatch):
    """It sends and sends: neither time nor memory are without bound."""
    monkeypatch.setattr(http, "MAX_BYTES", 1 << 20)

    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b" " * 65_536)
        except OSError:
            pass

    with pytest.raises(InputError, match="one answer is larger than 1 MiB"):
        import_file(serving(endless).target)


def test_a_slow_answer_is_ended(serving, monkeypatch):
    monkeypatch.setattr(http, "ANSWER_S", 0.0)
    with pytest.raises(CouldNotRun, match="takes longer than 0 s"):
        import_file(serving(counting()).target)


def test_a_password_comes_from_netrc(serving, tmp_path):
    server = serving(counting())
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login monitor password s3cret\n")
    (tmp_path / "netrc").chmod(0o600)
    import_file(server.target)
    expected = f"Basic {base64.b64encode(b'monitor:s3cret').decode()}"
    assert {headers["Authorization"] for _, _, headers in server.requests} == {expected}


def test_a_token_is_sent_to_this_machine_and_over_https_only(serving, monkeypatch):
    server = serving(counting())
    monkeypatch.setenv(http.TOKEN, "abc.def")
    import_file(server.target)
    assert {headers["Authorization"] for _, _, headers in server.requests} == {"Bearer abc.def"}
    with pytest.raises(InputError, match="is not sent over http to another machine") as caught:
        import_file("prometheus:http://prom.example:9090")
    assert "abc.def" not in str(caught.value)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("prometheus:", "must be an http or https address"),
        ("prometheus:ftp://h", "must be an http or https address"),
        ("prometheus:http://h:99999", "must be an http or https address"),
        ("prometheus:http://h?instance", "must be a label and its value"),
        ("prometheus:http://h?instance=", "must be a label and its value"),
        ("prometheus:http://h?__name__=up", "must be a label and its value"),
        ("prometheus:http://h?a=1&a=2", "names a label twice"),
        ("prometheus:http://h?in-stance=x", "must be a label and its value"),
    ],
)
def test_targets_that_are_none(target, message):
    with pytest.raises(InputError, match=message):
        parse_target(target)


def test_a_password_in_an_address_is_refused_and_not_shown():
    with pytest.raises(InputError, match="is not part of an address") as caught:
        parse_target("prometheus:https://monitor:s3cret@prom.example:9090")
    assert "s3cret" not in str(caught.value) and "netrc" in caught.value.hint


@pytest.mark.parametrize(
    ("query", "selector"),
    [
        ("instance=db1:9100", '{instance="db1:9100"}'),
        ("instance=db1", '{instance=~"db1(:[0-9]+)?"}'),
        ("instance=db1.example", '{instance=~"db1\\\\.example(:[0-9]+)?"}'),
        ('node_name=a"b', '{node_name="a\\"b"}'),
        ("", "{}"),
    ],
)
def test_labels_are_quoted_for_promql(query, selector):
    """A quotation mark in a value ends no string, and a dot is a dot."""
    assert parse_target(f"prometheus:http://h?{query}").build_selector() == selector
