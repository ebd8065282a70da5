"""Charts drawn in a process of their own: the renderer is a JavaScript engine, and where it lacks
memory it ends its process without a word to Python."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING

from headrace.base.extras import import_optional
from headrace.base.processes import spawn
from headrace.errors import CouldNotRun

if TYPE_CHECKING:
    import altair as alt

# A line with the form wanted and the specification; back comes a line with a length, or -1 and what
# was wrong, and that many bytes.
WORKER = """
import json, sys
import vl_convert
for line in sys.stdin.buffer:
    wanted = json.loads(line)
    try:
        if wanted["form"] == "svg":
            drawn = vl_convert.vegalite_to_svg(wanted["spec"]).encode()
        else:
            drawn = vl_convert.vegalite_to_png(wanted["spec"], scale=wanted["scale"])
        sys.stdout.buffer.write(b"%d\\n" % len(drawn) + drawn)
    except Exception as error:
        sys.stdout.buffer.write(b"-1\\n" + " ".join(str(error).split())[:300].encode() + b"\\n")
    sys.stdout.buffer.flush()
"""
HINT = "Raise the limit on memory (ulimit -v: the renderer reserves far more addresses than it uses memory), or leave the chart out."


class _Renderer:
    """The process, started at the first chart and again when it has ended. One chart at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen | None = None
        self._owner = 0
        self._lock = threading.Lock()

    def draw(self, spec: str, form: str, scale: float = 1.0) -> bytes:
        """Draws the chart as SVG text or PNG. Raises CouldNotRun."""
        with self._lock:
            try:
                requests, answer = self._started()
                requests.write(json.dumps({"form": form, "spec": spec, "scale": scale}).encode() + b"\n")
                requests.flush()
                length = int(answer.readline() or -2)
                if length == -1:
                    raise ValueError(answer.readline().decode().strip())
                drawn = answer.read(length) if length >= 0 else b""
            except OSError as error:
                self._end()
                raise CouldNotRun("the chart", f"could not be drawn: {error.strerror or error}", "", HINT) from None
            # An interrupt between question and answer: the next answer would be to this question.
            except BaseException:
                self._end()
                raise
            if length < 0 or len(drawn) < length:
                raise CouldNotRun(
                    "the chart", f"could not be drawn: the renderer {_describe_end(self._end())}", "vl-convert", HINT
                )
            return drawn

    def _started(self) -> tuple[IO[bytes], IO[bytes]]:
        """Returns the stream that takes requests and the stream of answers, of a process that
        runs."""
        if self._process is None or self._process.poll() is not None or self._owner != os.getpid():
            # The worker cannot say it: its standard error goes nowhere.
            if find_spec("vl_convert") is None:
                with import_optional():
                    raise ModuleNotFoundError(name="vl_convert")
            # In a session of its own: Ctrl-C is for the command, and the renderer ends with its
            # standard input.
            words = [sys.executable, "-c", WORKER]
            self._process = spawn(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, folder=None)
            self._owner = os.getpid()
        assert self._process.stdin is not None and self._process.stdout is not None
        return self._process.stdin, self._process.stdout

    def _end(self) -> int:
        """Ends the process; returns how it ended, as subprocess counts."""
        process, self._process = self._process, None
        if process is None:
            return 0
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            return process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def _describe_end(code: int) -> str:
    return (
        f"was ended by signal {-code}; it lacked memory, it seems"
        if code < 0
        else f"ended with code {code}; it lacked memory, it seems"
    )


_renderer = _Renderer()


def svg(chart: alt.TopLevelMixin) -> str:
    """Returns an Altair chart as SVG text, drawn without a browser."""
    drawn = _renderer.draw(chart.to_json(indent=None), "svg").decode()
    # The renderer counts its clip paths on from chart to chart; counted from 0 the same chart is
    # the same text every time.
    numbers = {name: f"clip{index}" for index, name in enumerate(dict.fromkeys(re.findall(r"\bclip\d+\b", drawn)))}
    return re.sub(r"\bclip\d+\b", lambda match: numbers[match[0]], drawn)


def png(chart: alt.TopLevelMixin, scale: float = 2.0) -> bytes:
    """Returns an Altair chart as PNG on white, `scale` pixels for each CSS pixel."""
    spec = chart.to_dict()
    spec["config"]["background"] = "white"
    return _renderer.draw(json.dumps(spec), "png", scale)


def inline_svg(chart: alt.TopLevelMixin, prefix: str) -> str:
    """Returns SVG to put into a page: ids are unique, since charts on one page share a name space.
    The ink follows the page by CSS."""
    drawn = re.sub(r"^<\?xml[^>]*>|<!DOCTYPE[^>]*>", "", svg(chart)).strip()
    drawn = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', drawn)
    drawn = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", drawn)
    return re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', drawn)
