"""A small server that speaks as much of S3 as a lab's object store needs, and fails when it is told
to: errors, answers that are cut or come late, objects that are there by half, with and without a
word. Signatures are not looked at.
"""

from __future__ import annotations

import random
import threading
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

BUCKET = "lab"
# Number of 100 requests that fail in each way while the store fails; the rest is served. Most of
# what fails is tried again at once by the client, so that it takes many for an upload to end in an
# error.
FAULTS = {"error": 10, "cut": 8, "lost answer": 6, "slow": 6, "half without a word": 1}
SLOW_S = (0.1, 1.0)


class FailingS3:
    """Starts with the object, ends with `close`. `failing`: at random; `away`: every request;
    `lying`: it keeps half of every object, and says that it has it.
    """

    def __init__(self, seed: int) -> None:
        self.objects: dict[str, bytes] = {}
        self.failing = self.away = self.lying = False
        self.seen = dict.fromkeys(FAULTS, 0)
        self._chance, self._lock = random.Random(seed), threading.Lock()
        handler = type("Handler", (_Handler,), {"store": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"s3://{BUCKET}/x?endpoint=http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def draw(self) -> str:
        """Draws the fault of a request; none most of the time."""
        if self.away:
            return "error"
        if self.lying:
            return "half without a word"
        with self._lock:
            number = self._chance.randrange(100)
            for fault, share in FAULTS.items():
                number -= share
                if self.failing and number < 0:
                    self.seen[fault] += 1
                    return fault
        return ""

    def pause(self) -> None:
        with self._lock:
            seconds = self._chance.uniform(*SLOW_S)
        time.sleep(seconds)


class _Handler(BaseHTTPRequestHandler):
    store: FailingS3
    protocol_version = "HTTP/1.1"
    # Headers and body go out together, or each waits for an acknowledgement of the other.
    wbufsize = -1
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on standard error."""

    def do_PUT(self) -> None:
        self._serve(self._put)

    def do_GET(self) -> None:
        self._serve(self._list if "list-type" in self._query() else self._get)

    def do_DELETE(self) -> None:
        self._serve(self._delete)

    def do_POST(self) -> None:
        self._serve(self._delete_many)

    def _query(self) -> dict[str, str]:
        return {key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()}

    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}").lstrip("/")

    def _serve(self, work) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.store.draw()
        if fault == "slow":
            self.store.pause()
        if fault == "error":
            self._answer(503, b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>")
            return
        if fault in ("cut", "half without a word") and self.command == "PUT":
            self.store.objects[self._key()] = self.body[: len(self.body) // 2]
            if fault == "cut":
                self.close_connection = True
                return
            self._answer(200, b"", {"ETag": '"half"'})
            return
        status, body, headers = work()
        if fault == "lost answer":
            self.close_connection = True
            return
        self._answer(status, body, headers, cut=fault == "cut")

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None, cut: bool = False) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        self.wfile.flush()
        if cut:
            self.close_connection = True

    def _put(self):
        self.store.objects[self._key()] = self.body
        return 200, b"", {"ETag": '"whole"'}

    def _get(self):
        objects = self.store.objects.get(self._key())
        if objects is None:
            return 404, b"<Error><Code>NoSuchKey</Code><Message>There is none.</Message></Error>", {}
        headers = {"ETag": '"whole"', "Last-Modified": formatdate(usegmt=True)}
        request = self.headers.get("Range")
        if request is None:
            return 200, objects, headers
        first, last = (int(part) for part in request.removeprefix("bytes=").split("-"))
        if first >= len(objects):
            return 416, b"<Error><Code>InvalidRange</Code><Message>It is shorter.</Message></Error>", {}
        last = min(last, len(objects) - 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{len(objects)}"
        return 206, objects[first : last + 1], headers

    def _delete(self):
        self.store.objects.pop(self._key(), None)
        return 204, b"", {}

    def _delete_many(self):
        names = [entry.text or "" for entry in ElementTree.fromstring(self.body).iter() if entry.tag.endswith("Key")]
        for name in names:
            self.store.objects.pop(name, None)
        gone = "".join(f"<Deleted><Key>{escape(name)}</Key></Deleted>" for name in names)
        return 200, f"<DeleteResult>{gone}</DeleteResult>".encode(), {"Content-Type": "application/xml"}

    def _list(self):
        prefix = self._query().get("prefix", "")
        text = "".join(
            f"<Contents><Key>{escape(name)}</Key><LastModified>2018-08-15T00:00:00.000Z</LastModified>"
            f"<ETag>&quot;whole&quot;</ETag><Size>{len(data)}</Size></Contents>"
            for name, data in sorted(list(self.store.objects.items()))
            if name.startswith(prefix)
        )
        answer = f"<ListBucketResult><IsTruncated>false</IsTruncated>{text}</ListBucketResult>"
        return 200, answer.encode(), {"Content-Type": "application/xml"}
