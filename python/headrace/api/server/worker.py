"""Runs the worker, HTTP on the loopback without rights, and leads a request from HTTP to its
handler and back."""

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
import traceback
import uuid
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from headrace.api.access.evaluation import authorise
from headrace.api.access.keys import ACCOUNT, KeyPair, from_message
from headrace.api.access.signature import WRONG, BadSignature, Claim, read_claim, verify
from headrace.api.cache import LabCache
from headrace.api.errors import AwsError, from_lab, make_dry_run_error
from headrace.api.handling import ApiRequest, Caller, load
from headrace.api.protocol import unserved
from headrace.api.protocol.shapes import SERVICES, Operation, get_service, read_refused_operations
from headrace.api.protocol.wire import Format, identify
from headrace.api.server.labs import Broker, HandedLab, LabPool
from headrace.errors import HeadraceError
from headrace.lab.exporter import drop_rights
from headrace.lab.http_server import Answer, HttpServer, Incoming
from headrace.lab.place import Place

# A body after it was unpacked. CloudWatch takes 1 MB for PutMetricData (CloudWatch service quotas);
# no other call comes near.
MAX_UNPACKED_BYTES = 1 << 20
# Signed for this region by clients that know STS as a global service (AWS STS regions guide).
STS_GLOBAL = "us-east-1"


def _unpack(body: bytes, encoding: str) -> bytes:
    """Returns a body decoded by its Content-Encoding, gzip. Raises AwsError for another encoding,
    and for more than MAX_UNPACKED_BYTES."""
    if encoding == "gzip":
        unpacking = zlib.decompressobj(wbits=31)
        try:
            unpacked = unpacking.decompress(body, MAX_UNPACKED_BYTES + 1)
        except zlib.error:
            raise AwsError("SerializationException", "The body is not what Content-Encoding says: gzip") from None
        if len(unpacked) > MAX_UNPACKED_BYTES:
            raise AwsError("RequestEntityTooLarge", f"A body has at most {MAX_UNPACKED_BYTES:,} bytes", 413)
        if not unpacking.eof or unpacking.unused_data:
            raise AwsError("SerializationException", "The body is not what Content-Encoding says: gzip")
        return unpacked
    raise AwsError("SerializationException", f"Content-Encoding {encoding[:40]} is not supported; gzip is")


class Endpoint:
    """Answers requests. `keys` are replaced as a whole when they change; threads may share it."""

    def __init__(
        self,
        labs: LabPool,
        keys: Mapping[str, KeyPair],
        region: str,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.keys = keys
        self._labs = labs
        self._region = region
        self._now = now
        self._served = load()
        self._cache = LabCache()

    def __call__(self, incoming: Incoming) -> Answer:
        """Returns the answer to a request of HTTP. Never raises."""
        request_id = str(uuid.uuid4())
        protocol: Format | None = None
        try:
            claim, refused = _read_claim(incoming)
            if claim is None:
                protocol = identify(incoming.remove_body(), "")
                raise refused.as_aws(protocol.service.name)
            if not unserved.is_served(claim.service):
                answer = unserved.refuse_unserved(incoming, claim.service, request_id)
                answer.headers.append(("x-amzn-RequestId", request_id))
                return answer
            # The signature first: a body is read for callers whose key exists.
            protocol = identify(incoming.remove_body(), claim.service)
            keys = self.keys
            self._verify(claim, incoming, protocol, keys)
            encoding = incoming.headers.get("content-encoding", "").strip().lower()
            if encoding not in ("", "identity"):
                incoming = replace(incoming, body=_unpack(incoming.body, encoding))
            protocol = identify(incoming, claim.service)
            operation = protocol.get_operation()
            answer = self._answer_request(protocol, operation, keys[claim.access_key], request_id)
        except AwsError as error:
            answer = protocol.answer_error(error, request_id) if protocol else _answer_error(error)
        except Exception:
            # A defect of this program: the log has it, and the answer differs from a caller's
            # mistake.
            print(f"api: request {request_id}:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
            error = AwsError(
                "InternalError", f"The lab's endpoint has a defect; its log says more at {request_id}.", 500
            )
            answer = protocol.answer_error(error, request_id) if protocol else _answer_error(error)
        answer.headers.append(("x-amzn-RequestId", request_id))
        return answer

    def _verify(self, claim: Claim, incoming: Incoming, protocol: Format, keys: Mapping[str, KeyPair]) -> None:
        """Checks signature, service and region of a claim. Raises AwsError with the service's own
        code."""
        name = protocol.service.name
        try:
            operation = protocol.service.operations.get(protocol.action)
            unsigned = operation is not None and operation.unsigned_body
            verify(claim, incoming, lambda key: keys[key].secret if key in keys else None, self._now(), unsigned)
            if claim.service != protocol.service.signing_name:
                rule = f"Credential should be scoped to correct service: '{protocol.service.signing_name}'."
                raise BadSignature(WRONG, rule)
            if claim.region != self._region and (name, claim.region) != ("sts", STS_GLOBAL):
                raise BadSignature(
                    WRONG, f"Credential should be scoped to a valid region: this lab's is '{self._region}'."
                )
        except BadSignature as refused:
            raise refused.as_aws(name) from None

    def _answer_request(self, protocol: Format, operation: Operation, pair: KeyPair, request_id: str) -> Answer:
        """Reads the parameters, checks permissions, calls the handler, and returns its answer.
        Raises AwsError, also in place of the answer of a dry run."""
        service = protocol.service.name
        params = protocol.read(operation)
        served = self._served.get((service, operation.name))
        if served is None:
            raise AwsError("UnsupportedOperation", f"The operation {operation.name} is not supported by this lab.")
        served.refuse(params)
        caller = Caller(pair.access_key, ACCOUNT, pair.user)
        with self._labs.lend_lab() as lab:
            request = ApiRequest(service, operation.name, params, lab, caller, self._region, request_id, self._cache)
            try:
                authorise(served, request, pair)
                result = served.handler(request)
            except HeadraceError as error:
                raise from_lab(error, service) from None
        if request.dry_run:
            raise make_dry_run_error(service)
        return protocol.answer(operation, result, request_id)


def _read_claim(incoming: Incoming) -> tuple[Claim | None, BadSignature]:
    """Returns the claim of a request; where it cannot be read, None with the reason."""
    try:
        return read_claim(incoming), BadSignature(WRONG)
    except BadSignature as refused:
        return None, refused


def _answer_error(error: AwsError) -> Answer:
    return Answer(error.status or 400, f"{error}\n".encode(), [("Content-Type", "text/plain; charset=utf-8")])


# Messages of the supervisor: a letter and text; a descriptor comes with K and F.
KEYS, CONNECTION, FAILED = b"K", b"F", b"E"
MAX_MESSAGE_BYTES = 4096
# Most bytes of all keys: 100 users with 10 policies of 6,144 characters each, and some room.
MAX_KEYS_BYTES = 16 << 20
# New objects after which Python's cyclic garbage collector runs. A guess: some hundred requests.
GC_OBJECTS = 20_000


def prepare() -> None:
    """Loads all that requests need. The worker may not be able to read this program's own files."""
    for name in SERVICES:
        get_service(name)
    read_refused_operations()
    load()
    for codec in ("ascii", "latin-1", "unicode_escape", "utf-8"):
        codecs.lookup(codec)


def run(listener: socket.socket, channel: socket.socket, place: Place, region: str, keys: bytes) -> None:
    """Gives up the process's rights, and serves HTTP until the supervisor ends. `keys`: a message
    of `as_message`."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    drop_rights()
    broker = Broker(channel)
    endpoint = Endpoint(LabPool(lambda: HandedLab(place, broker.connect)), from_message(keys), region)
    # Loaded modules stay: the collector need not examine them.
    gc.collect()
    gc.freeze()
    # Objects of a request have no reference cycles: a run at every 700th object is useless.
    gc.set_threshold(GC_OBJECTS, *gc.get_threshold()[1:])
    threading.Thread(target=HttpServer(listener, endpoint).serve_forever, daemon=True).start()
    listen_to(channel, broker, endpoint)


def listen_to(channel: socket.socket, broker: Broker, endpoint: Endpoint) -> None:
    """Receives connections and key pairs from the supervisor, and hands them to the broker and the
    endpoint, until the supervisor ends."""
    while True:
        message, descriptors = receive_message(channel)
        if not message:
            return
        kind, text = message[:1], message[1:].decode("utf-8", "replace")
        if kind == CONNECTION and descriptors:
            broker.take_answer(socket.socket(fileno=descriptors[0]))
        elif kind == KEYS and descriptors:
            with contextlib.suppress(HeadraceError, ValueError):
                endpoint.keys = _read_keys(descriptors[0])
        else:
            broker.take_answer(text or "the lab cannot be reached")


def _read_keys(descriptor: int) -> Mapping[str, KeyPair]:
    """Reads the key pairs in a file that the supervisor handed over, by access key id."""
    with open(descriptor, "rb") as file:
        file.seek(0)
        return from_message(file.read(MAX_KEYS_BYTES))


def receive_message(channel: socket.socket) -> tuple[bytes, list[int]]:
    """Returns the next message and the descriptors that came with it; b"" where the channel has
    ended."""
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
    """Ends the process at once: threads that still answer must not delay it."""
    sys.stderr.flush()
    os._exit(code)
