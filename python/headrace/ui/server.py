"""The page's server: its files, and the answers of `answers.py` as JSON."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from http import HTTPStatus
from importlib import import_module, resources
from importlib.resources.abc import Traversable
from types import ModuleType
from typing import TYPE_CHECKING

import msgspec
import uvicorn
from anyio import create_task_group, to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from headrace.base.extras import import_optional
from headrace.errors import CouldNotRun, HeadraceError
from headrace.report.page_files import MODEL, build_stylesheet, read_live_file, shorten
from headrace.ui.asks import Nothing
from headrace.ui.guard import SESSION, Guard, Keys, answer_error, make_refusal
from headrace.ui.spelling import refuse

if TYPE_CHECKING:
    from headrace.lab import Lab
    from headrace.ui.changes import LabChanges
    from headrace.ui.doctoring import Recordings
    from headrace.ui.live import Streams
    from headrace.ui.modelling import ServerModel
    from headrace.ui.opening import OpenedFiles
    from headrace.ui.workloads import Workloads

LOOPBACK = "127.0.0.1"
VIEWS = ("/", "/plan", "/database", "/fleet", "/lab", "/replicas", "/doctor", "/studies", "/proofs")
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Scripts that reports and the page share, and the model of a browser if it has been built.
SHARED = ("scales.js", "figures.js", "model.js")
MODEL_ADDRESS, MODEL_TYPE = "/static/model.wasm", "application/wasm"


@dataclass(frozen=True)
class Answerer:
    """The function that answers a question, by names, since modules are imported when first needed.

    `module`: of this room. `question`: its class in the module; "" of a question without parts.
    `function`: of the module, or with `owner` a method of that attribute of the server. `part`: an
    attribute of the server that the function has before the question. `is_long`: it takes seconds,
    and ends when nobody waits for it.
    """

    module: str
    question: str
    function: str
    part: str = ""
    owner: str = ""
    is_long: bool = False


ANSWERERS = {
    "start": Answerer("answers", "", "start", "abilities"),
    "plan": Answerer("answers", "Ask", "plan", "memory", is_long=True),
    "load": Answerer("modelling", "AskLoad", "describe_load", "memory"),
    "database": Answerer("modelling", "AskLoad", "describe_database", "memory"),
    "whatif": Answerer("modelling", "AskModel", "answer", owner="model"),
    "run": Answerer("answers", "AskRun", "run", "memory"),
    "study": Answerer("answers", "AskStudy", "study", is_long=True),
    "upload": Answerer("answers", "AskUpload", "upload", "memory"),
    "doctor": Answerer("doctoring", "AskDoctor", "judge", owner="recordings"),
    "open": Answerer("opening", "AskOpen", "open", owner="files"),
    "opened-plan": Answerer("opening", "AskFile", "show_plan", "files"),
    "fleet": Answerer("fleets", "AskFleet", "show_fleet", "files"),
    "patch": Answerer("fleets", "AskPatch", "write_patch", "files"),
    "proofs": Answerer("proofs", "", "list_proofs"),
    "proof": Answerer("proofs", "AskProof", "show_proof", "files"),
    "topology": Answerer("replicas", "", "show_topology", "connect"),
    "replica": Answerer("replicas", "AskReplica", "run_replica", "memory"),
    "propose": Answerer("changes", "AskChange", "propose", owner="changes"),
    "change": Answerer("changes", "AskTicket", "carry_out", owner="changes"),
}
# Modules that most views need: imported while a browser starts.
EARLY = ("answers", "modelling", "opening", "fleets", "live")


class Cancelled(Exception):
    """The browser no longer waits for an answer."""


@dataclass(frozen=True)
class StaticFile:
    """A file of the page. `tag`: names its content."""

    content: bytes
    packed: bytes
    kind: str
    tag: str


def pack(content: bytes, kind: str, packed: bytes | None = None) -> StaticFile:
    """Returns a file of the page with its gzip form `packed` (None: compressed here) and a tag."""
    packed = gzip.compress(content, mtime=0) if packed is None else packed
    return StaticFile(content, packed, kind, f'"{hashlib.sha256(content).hexdigest()[:16]}"')


@cache
def read_static_files() -> dict[str, StaticFile]:
    """Returns the files of the page by their addresses; what a request names is looked up here, and
    never on a disk."""
    files = {"/page.css": pack(build_stylesheet().encode(), TYPES[".css"])}
    _collect(resources.files("headrace.ui").joinpath("static"), "/static", files)
    for name in SHARED:
        files[f"/static/{name}"] = pack(shorten(read_live_file(name) or b""), TYPES[".js"])
    if (model := read_live_file(MODEL)) is not None:
        files[MODEL_ADDRESS] = pack(gzip.decompress(model), MODEL_TYPE, model)
    return files


def _collect(folder: Traversable, address: str, files: dict[str, StaticFile]) -> None:
    """Adds the files of a folder and those below it to `files`, packed, by the address under
    `address`."""
    for entry in folder.iterdir():
        ending = f".{entry.name.rpartition('.')[2]}"
        if entry.is_dir():
            _collect(entry, f"{address}/{entry.name}", files)
        elif ending in TYPES:
            content = entry.read_bytes()
            files[f"{address}/{entry.name}"] = pack(shorten(content) if ending == ".js" else content, TYPES[ending])


def serve_static(request: Request) -> Response:
    """Answers with a file of the page."""
    path = "/static/index.html" if request.url.path in VIEWS else request.url.path
    file = read_static_files().get(path)
    if file is None:
        return make_refusal(HTTPStatus.NOT_FOUND, "the address", "is not a page of headrace", "Open /.")
    headers = {"content-type": file.kind, "etag": file.tag, "vary": "accept-encoding"}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.packed, headers=headers | {"content-encoding": "gzip"})
    return Response(file.content, headers=headers)


class NoChanges:
    """The changes of a page that makes none."""

    def propose(self, ask: object) -> dict[str, object]:
        """Raises InputError."""
        return import_room("changes").refuse_changes(ask)

    carry_out = propose


class PageServer:
    """The page on a port of the loopback address."""

    def __init__(self, port: int = 0, open_lab: Callable[[], Lab] | None = None, allow_changes: bool = False) -> None:
        """Opens the port and prepares the guard. `port`: 0 takes any that is not in use.
        `open_lab`: connects to the lab that is shown, None: this user's; `allow_changes`: it may be
        changed. Raises CouldNotRun."""
        self.socket = _listen(port)
        self.port: int = self.socket.getsockname()[1]
        self.keys, self.allow_changes = Keys(), allow_changes
        self.open_lab = open_lab
        self.guard = Guard(self._build_application(), self.keys, self.port)
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
        """Returns the address to open, with the token that is good once."""
        return f"http://{LOOPBACK}:{self.port}/#token={self.keys.token}"

    @cached_property
    def memory(self) -> Workloads:
        """Returns the workloads that the page was given."""
        return import_room("workloads").Workloads()

    @cached_property
    def model(self) -> ServerModel:
        """Returns the model, for browsers without one."""
        return import_room("modelling").ServerModel(self.memory)

    @cached_property
    def files(self) -> OpenedFiles:
        """Returns the results that the page was given."""
        return import_room("opening").OpenedFiles()

    @cached_property
    def recordings(self) -> Recordings:
        """Returns the recordings that the page was given."""
        return import_room("doctoring").Recordings()

    @cached_property
    def streams(self) -> Streams:
        """Returns the moments of the lab."""
        return import_room("live").Streams(self.connect)

    @cached_property
    def changes(self) -> LabChanges | NoChanges:
        """Returns the changes of the lab."""
        return import_room("changes").LabChanges(self.connect) if self.allow_changes else NoChanges()

    @property
    def abilities(self) -> dict[str, object]:
        """Returns the abilities that not every page has: changes of the lab, and a model in the
        browser."""
        actions = import_room("changes").describe_actions() if self.allow_changes else []
        return {"actions": actions, "model": MODEL_ADDRESS in read_static_files()}

    def connect(self) -> Lab:
        """Connects to the lab that is shown. Raises CouldNotRun."""
        return import_module("headrace.lab").Lab() if self.open_lab is None else self.open_lab()

    @property
    def is_serving(self) -> bool:
        """Returns whether `run` answers requests."""
        return self._server.started

    def run(self) -> None:
        """Serves until it is interrupted."""
        threading.Thread(target=self._import_early, name="headrace-page-imports", daemon=True).start()
        self._server.run([self.socket])

    def stop(self) -> None:
        """Ends `run` from another thread."""
        self._server.should_exit = True

    def _import_early(self) -> None:
        """Imports the modules of EARLY; a missing library is refused in the view that needs it."""
        for module in EARLY:
            with contextlib.suppress(HeadraceError):
                import_room(module)

    def _build_application(self) -> Starlette:
        """Returns the application: an address per answer, the live streams, the session, and
        files."""
        routes = [
            Route(f"/api/{name}", self._make_handler(answerer), methods=["POST"])
            for name, answerer in ANSWERERS.items()
        ]
        routes.append(Route("/api/live", self._stream_moments, methods=["POST"]))
        return Starlette(
            routes=[*routes, Route(SESSION, self._open, methods=["POST"]), Route("/{path:path}", serve_static)]
        )

    def _make_handler(self, answerer: Answerer) -> Callable:
        """Returns the handler of a question: it answers on a thread, and says what went wrong as
        the command line does. A long one ends when the browser no longer waits."""

        def answer(body: bytes, *progress: Callable[[float], None]) -> Response:
            return _answer(self, answerer, body, *progress)

        async def handle(request: Request) -> Response:
            body = await request.body()
            if answerer.is_long:
                return await _answer_while_waited_for(request, answer, body)
            return await to_thread.run_sync(answer, body)

        return handle

    async def _stream_moments(self, request: Request) -> Response:
        """Streams the lab's moments, a line of JSON each."""
        try:
            target = await to_thread.run_sync(self._begin_stream)
        except HeadraceError as error:
            return answer_error(error, choose_status(error))
        return StreamingResponse(self.streams.stream_lines(target), media_type="application/x-ndjson")

    def _begin_stream(self) -> str:
        return self.streams.begin()  # on a thread, since the module may have to be imported first

    async def _open(self, request: Request) -> Response:
        """Exchanges the token for the cookie and the key."""
        try:
            given = msgspec.json.decode(await request.body(), type=OpenSession)
        except msgspec.MsgspecError:
            given = None
        exchanged = None if given is None else self.keys.exchange(given.token)
        if exchanged is None:
            hint = "Run `headrace page` again: each address is good once."
            return make_refusal(HTTPStatus.UNAUTHORIZED, "the address", "has been used, or is another's", hint)
        cookie, key = exchanged
        answer = JSONResponse({"key": key})
        answer.set_cookie(self.guard.cookie_name, cookie, httponly=True, samesite="strict", path="/")
        return answer


def import_room(module: str) -> ModuleType:
    """Imports a module of this room. Raises CouldNotRun where a library is missing."""
    with import_optional():
        return import_module(f"headrace.ui.{module}")


class OpenSession(msgspec.Struct, forbid_unknown_fields=True):
    """Request of the page to be let in."""

    token: str


async def _answer_while_waited_for(request: Request, function: Callable, body: bytes) -> Response:
    """Runs `function` in a thread and returns its answer; ends it at its next report of progress if
    the browser has left."""
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
        answer = await to_thread.run_sync(function, body, go_on)
        tasks.cancel_scope.cancel()
        return answer
    raise Cancelled  # not reached: a group that is cancelled from outside raises


def _answer(server: PageServer, answerer: Answerer, body: bytes, *progress: Callable[[float], None]) -> Response:
    """Decodes a question, lets its function answer, and encodes the answer, bytes as they are;
    errors become an answer with their status."""
    try:
        module = import_room(answerer.module)
        kind = getattr(module, answerer.question) if answerer.question else Nothing
        try:
            ask = msgspec.json.decode(body, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return make_refusal(HTTPStatus.BAD_REQUEST, "the request", " ".join(str(error).split())[:200])
        parts = [getattr(server, answerer.part)] if answerer.part else []
        owner = getattr(server, answerer.owner) if answerer.owner else module
        answer = getattr(owner, answerer.function)(*parts, ask, *progress)
        if isinstance(answer, bytes):
            return Response(answer, media_type="application/octet-stream")
        return Response(msgspec.json.encode(answer), media_type="application/json")
    except Cancelled:
        return Response(status_code=HTTPStatus.NO_CONTENT)
    except HeadraceError as error:
        return answer_error(error, choose_status(error))
    except Exception as error:  # said as the command line says it, without a traceback
        rule = f"is a bug in headrace: {type(error).__name__}"
        return answer_error(refuse.input("this", rule), HTTPStatus.INTERNAL_SERVER_ERROR)


def choose_status(error: HeadraceError) -> HTTPStatus:
    """Returns the status of an error: what was asked is wrong, or this machine cannot answer it."""
    return HTTPStatus.SERVICE_UNAVAILABLE if isinstance(error, CouldNotRun) else HTTPStatus.BAD_REQUEST


def _listen(port: int) -> socket.socket:
    """Opens a port of the loopback address, 0 for any. Raises CouldNotRun if it is not free."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
        listening.listen()  # from now on a browser is answered, if a moment later
    except OSError as error:
        listening.close()
        hint = "Leave --port out: any port that is not in use is taken."
        raise refuse.run(f"port {port}", f"cannot be opened: {error.strerror}", hint) from None
    return listening
