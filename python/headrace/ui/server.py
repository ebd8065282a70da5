"""The page's server: its files, and the answers of `answers.py` as JSON."""

from __future__ import annotations

import gzip
import hashlib
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from http import HTTPStatus
from importlib import import_module, resources
from importlib.resources.abc import Traversable

import msgspec
import uvicorn
from anyio import create_task_group, to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from headrace.base.extras import import_optional
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.lab import Lab
from headrace.report.html import stylesheet
from headrace.report.live import MODEL
from headrace.ui import answers, fleets
from headrace.ui.asks import AskDoctor, AskProof, AskReplica, Nothing
from headrace.ui.changes import AskChange, AskTicket, LabChanges, describe_actions, refuse_changes
from headrace.ui.guard import SESSION, Guard, Keys, answer_error, refused
from headrace.ui.live import Streams
from headrace.ui.opening import AskOpen, OpenedFiles
from headrace.ui.spelling import SOURCE
from headrace.ui.workloads import Workloads

LOOPBACK = "127.0.0.1"
VIEWS = ("/", "/plan", "/database", "/fleet", "/lab", "/replicas", "/doctor", "/studies", "/proofs")
LONG = ("plan", "study")  # what takes seconds, and ends when nobody waits for it
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# What reports and the page have in common, and the model of a browser where it is built.
SHARED = ("scales.js", "figures.js", "model.js")
MODEL_ADDRESS, MODEL_TYPE = "/static/model.wasm", "application/wasm"


class Cancelled(Exception):
    """The browser no longer waits for an answer."""


@dataclass(frozen=True)
class StaticFile:
    """A file of the page. `tag`: names its content."""

    content: bytes
    packed: bytes
    kind: str
    tag: str


def pack(content: bytes, kind: str) -> StaticFile:
    """Returns a file as it is served."""
    return StaticFile(content, gzip.compress(content, mtime=0), kind, f'"{hashlib.sha256(content).hexdigest()[:16]}"')


@cache
def static_files() -> dict[str, StaticFile]:
    """Returns the files of the page by their addresses; what a request names is looked up here, and
    never on a disk."""
    files = {"/page.css": pack(stylesheet().encode(), TYPES[".css"])}
    _collect(resources.files("headrace.ui").joinpath("static"), "/static", files)
    live = resources.files("headrace.report").joinpath("live")
    for name in SHARED:
        files[f"/static/{name}"] = pack(live.joinpath(name).read_bytes(), TYPES[".js"])
    model = live.joinpath(MODEL)
    if model.is_file():
        files[MODEL_ADDRESS] = pack(gzip.decompress(model.read_bytes()), MODEL_TYPE)
    return files


def _collect(folder: Traversable, address: str, files: dict[str, StaticFile]) -> None:
    for entry in folder.iterdir():
        ending = f".{entry.name.rpartition('.')[2]}"
        if entry.is_dir():
            _collect(entry, f"{address}/{entry.name}", files)
        elif ending in TYPES:
            files[f"{address}/{entry.name}"] = pack(entry.read_bytes(), TYPES[ending])


def serve_static(request: Request) -> Response:
    """Answers with a file of the page."""
    path = "/static/index.html" if request.url.path in VIEWS else request.url.path
    file = static_files().get(path)
    if file is None:
        return refused(HTTPStatus.NOT_FOUND, "the address", "is not a page of headrace", "Open /.")
    headers = {"content-type": file.kind, "etag": file.tag, "vary": "accept-encoding"}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.packed, headers=headers | {"content-encoding": "gzip"})
    return Response(file.content, headers=headers)


class PageServer:
    """The page on a port of the loopback address."""

    def __init__(self, port: int = 0, open_lab: Callable[[], Lab] = Lab, allow_changes: bool = False) -> None:
        """`port`: 0 takes any that is not in use. `open_lab`: connects to the lab that is shown;
        `allow_changes`: it may be changed. Raises CouldNotRun."""
        self.socket = _listen(port)
        self.port: int = self.socket.getsockname()[1]
        self.keys, self.memory, self.streams = Keys(), Workloads(), Streams(open_lab)
        self.files, self.open_lab = OpenedFiles(), open_lab
        self.changes = LabChanges(open_lab) if allow_changes else None
        self.guard = Guard(self._routes(), self.keys, self.port)
        settings = uvicorn.Config(
            self.guard,
            log_level="critical",
            server_header=False,
            # Streams are open as long as a browser shows the lab; an interrupt waits so long, s.
            timeout_graceful_shutdown=1,
            date_header=False,
            lifespan="off",
        )
        self._server = uvicorn.Server(settings)

    @property
    def address(self) -> str:
        """The address to open, with the token that is good once."""
        return f"http://{LOOPBACK}:{self.port}/#token={self.keys.token}"

    def run(self) -> None:
        """Serves until it is interrupted."""
        self._server.run([self.socket])

    def stop(self) -> None:
        """Ends `run` from another thread."""
        self._server.should_exit = True

    def _routes(self) -> Starlette:
        changes = self.changes
        asks: dict[str, tuple[type, Callable]] = {
            "plan": (answers.Ask, partial(answers.plan, self.memory)),
            "load": (answers.AskLoad, partial(answers.describe_load, self.memory)),
            "whatif": (answers.AskModel, partial(answers.ask_model, self.memory)),
            "run": (answers.AskRun, partial(answers.run, self.memory)),
            "study": (answers.AskStudy, answers.study),
            "doctor": (AskDoctor, later("doctoring", "judge")),
            "upload": (answers.AskUpload, partial(answers.upload, self.memory)),
            "open": (AskOpen, self.files.open),
            "fleet": (fleets.AskFleet, partial(fleets.show_fleet, self.files)),
            "patch": (fleets.AskPatch, partial(fleets.write_patch, self.files)),
            "proofs": (Nothing, later("proofs", "list_proofs")),
            "proof": (AskProof, later("proofs", "show_proof", self.files)),
            "topology": (Nothing, later("replicas", "show_topology", lambda: self.open_lab())),
            "replica": (AskReplica, later("replicas", "run_replica", self.memory)),
            "propose": (AskChange, changes.propose if changes else refuse_changes),
            "change": (AskTicket, changes.carry_out if changes else refuse_changes),
            "start": (Nothing, lambda _: answers.start() | self._abilities()),
        }
        routes = [Route(f"/api/{name}", _handler(*ask, name in LONG), methods=["POST"]) for name, ask in asks.items()]
        routes.append(Route("/api/live", self._live, methods=["POST"]))
        return Starlette(
            routes=[*routes, Route(SESSION, self._open, methods=["POST"]), Route("/{path:path}", serve_static)]
        )

    def _abilities(self) -> dict[str, object]:
        """Returns what not every page can: changes of the lab, and a model in the browser."""
        actions = describe_actions() if self.changes else []
        return {"actions": actions, "model": MODEL_ADDRESS in static_files()}

    async def _live(self, request: Request) -> Response:
        """Streams the lab's moments, a line of JSON each."""
        try:
            target = await to_thread.run_sync(self.streams.begin)
        except HeadraceError as error:
            return answer_error(error, status_of(error))
        return StreamingResponse(self.streams.lines(target), media_type="application/x-ndjson")

    async def _open(self, request: Request) -> Response:
        """Exchanges the token for the cookie and the key."""
        try:
            given = msgspec.json.decode(await request.body(), type=OpenSession)
        except msgspec.MsgspecError:
            given = None
        exchanged = None if given is None else self.keys.exchange(given.token)
        if exchanged is None:
            hint = "Run `headrace page` again: each address is good once."
            return refused(HTTPStatus.UNAUTHORIZED, "the address", "has been used, or is another's", hint)
        cookie, key = exchanged
        answer = JSONResponse({"key": key})
        answer.set_cookie(self.guard.cookie_name, cookie, httponly=True, samesite="strict", path="/")
        return answer


def later(module: str, function: str, *parts: object) -> Callable[..., dict[str, object]]:
    """Returns a function of this room whose module is imported when it is first asked: it brings
    libraries that other views do without. It raises CouldNotRun where one of them is missing."""

    def answer(ask: object) -> dict[str, object]:
        with import_optional():
            own = import_module(f"headrace.ui.{module}")
        return getattr(own, function)(*parts, ask)

    return answer


class OpenSession(msgspec.Struct, forbid_unknown_fields=True):
    """What the page sends to be let in."""

    token: str


def _handler(kind: type, function: Callable, is_long: bool) -> Callable:
    """Returns the handler of a question: it answers on a thread, and says what went wrong as the
    command line does. A long one ends when the browser no longer waits."""

    async def handle(request: Request) -> Response:
        try:
            ask = msgspec.json.decode(await request.body(), type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return refused(HTTPStatus.BAD_REQUEST, "the request", " ".join(str(error).split())[:200])
        parts = (
            (await _answer_while_waited_for(request, function, ask))
            if is_long
            else await to_thread.run_sync(_answer, function, ask)
        )
        return parts

    return handle


async def _answer_while_waited_for(request: Request, function: Callable, ask: object) -> Response:
    gone = threading.Event()

    def go_on(done: float) -> None:
        if gone.is_set():
            raise Cancelled

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone.set()

    async with create_task_group() as tasks:
        tasks.start_soon(watch)
        answer = await to_thread.run_sync(_answer, function, ask, go_on)
        tasks.cancel_scope.cancel()
    return answer


def _answer(function: Callable, *parts: object) -> Response:
    try:
        return Response(msgspec.json.encode(function(*parts)), media_type="application/json")
    except Cancelled:
        return Response(status_code=HTTPStatus.NO_CONTENT)
    except HeadraceError as error:
        return answer_error(error, status_of(error))
    except Exception as error:  # said as the command line says it, without a traceback
        rule = f"is a bug in headrace: {type(error).__name__}"
        return answer_error(InputError("this", rule, SOURCE), HTTPStatus.INTERNAL_SERVER_ERROR)


def status_of(error: HeadraceError) -> HTTPStatus:
    """Returns the status of an error: what was asked is wrong, or this machine cannot answer it."""
    return HTTPStatus.SERVICE_UNAVAILABLE if isinstance(error, CouldNotRun) else HTTPStatus.BAD_REQUEST


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
        listening.listen()  # from now on a browser is answered, if a moment later
    except OSError as error:
        listening.close()
        hint = "Leave --port out: any port that is not in use is taken."
        raise CouldNotRun(f"port {port}", f"cannot be opened: {error.strerror}", SOURCE, hint) from None
    return listening
