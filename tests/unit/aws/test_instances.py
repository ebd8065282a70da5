"""An instance asks for its own id: the firmware first, then the metadata service."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from headrace.aws.instances import find_own_instance

HERE, TOKEN = "i-0aaaaaaaaaaaaaaaa", "a-token"


class Metadata(HTTPServer):
    """The metadata service of an instance `id`, which answers to those with a token alone."""

    id = HERE

    def __init__(self) -> None:
        self.requests: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(handler) -> None:
                has_span = handler.headers["X-aws-ec2-metadata-token-ttl-seconds"].isdecimal()
                self.answer(handler, TOKEN if has_span and handler.path == "/latest/api/token" else "")

            def do_GET(handler) -> None:
                allowed = handler.headers["X-aws-ec2-metadata-token"] == TOKEN
                self.answer(handler, self.id if allowed and handler.path == "/latest/meta-data/instance-id" else "")

            def log_message(handler, format: str, *args: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)

    def answer(self, handler: BaseHTTPRequestHandler, text: str) -> None:
        self.requests.append(f"{handler.command} {handler.path}")
        handler.send_response(200 if text else 401)
        handler.end_headers()
        handler.wfile.write(text.encode())


@pytest.fixture
def metadata(monkeypatch) -> Iterator[Metadata]:
    with Metadata() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.delenv("AWS_EC2_METADATA_DISABLED", raising=False)
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"http://127.0.0.1:{server.server_port}/")
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # of no use for what only this machine may ask
        yield server
        server.shutdown()
        thread.join()


def test_the_metadata_service_names_the_instance(metadata, tmp_path):
    assert find_own_instance(tmp_path) == HERE
    assert metadata.requests == ["PUT /latest/api/token", "GET /latest/meta-data/instance-id"]
    metadata.id = "iid-datasource-none"  # of another cloud
    assert find_own_instance(tmp_path) is None


def test_the_firmware_is_enough(metadata, tmp_path):
    firmware = tmp_path / "sys/devices/virtual/dmi/id/board_asset_tag"
    firmware.parent.mkdir(parents=True)
    firmware.write_text("i-0bbbbbbbbbbbbbbbb\n")
    assert find_own_instance(tmp_path) == "i-0bbbbbbbbbbbbbbbb" and metadata.requests == []
    firmware.write_text("Not Specified\n")  # of a machine that is no Nitro instance
    assert find_own_instance(tmp_path) == HERE


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AWS_EC2_METADATA_DISABLED", "true"),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:9"),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "nowhere"),
    ],
)
def test_a_machine_that_says_nothing_is_no_instance(metadata, tmp_path, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert find_own_instance(tmp_path) is None and metadata.requests == []
