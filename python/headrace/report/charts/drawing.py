"""Charts drawn as SVG or PNG, and set into a page: as wide as the text, and once more as wide as a
phone.

They are drawn in a process of their own: the renderer is a JavaScript engine, which ends its
process when it lacks memory.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import textwrap
import threading
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING, Any

from headrace.base.extras import import_optional
from headrace.base.processes import spawn
from headrace.errors import CouldNotRun

if TYPE_CHECKING:
    import altair as alt


# It reads lines of JSON with a form and a specification. The answer to each is a line with a length
# and that many bytes, or -1 and a line with the error.
WORKER = """
import json, sys
import vl_convert
for line in sys.stdin.buffer:
    request = json.loads(line)
    try:
        if request["form"] == "svg":
            drawn = vl_convert.vegalite_to_svg(request["spec"]).encode()
        else:
            drawn = vl_convert.vegalite_to_png(request["spec"], scale=request["scale"])
        sys.stdout.buffer.write(b"%d\\n" % len(drawn) + drawn)
    except Exception as error:
        sys.stdout.buffer.write(b"-1\\n" + " ".join(str(error).split())[:300].encode() + b"\\n")
    sys.stdout.buffer.flush()
"""
MEMORY_HINT = "Raise the limit on memory (ulimit -v: the renderer reserves far more addresses than it uses memory), or leave the chart out."
HINT = "Leave the chart out."
# Codes of a program that was killed by signal 9, as the kernel does where memory runs out:
# subprocess counts the first, a shell in between the second.
KILLED = (-9, 137)
# Bytes at the end of the renderer's standard error that are searched for its reason: more than the
# engine's reason and stack take (10,000).
TAIL_BYTES = 65_536
FRAME = re.compile(r"\[0x[0-9a-f]+\]$|^=+ C stack trace =+$")  # lines that follow the engine's reason


class _Renderer:
    """The renderer's process, started at the first chart, and again after its end."""

    def __init__(self) -> None:
        self._process: subprocess.Popen | None = None
        self._errors: IO[bytes] | None = None
        self._owner = 0
        self._lock = threading.Lock()

    def draw(self, spec: str, form: str, scale: float = 1.0) -> bytes:
        """Draws the chart as SVG text or PNG. Raises CouldNotRun."""
        with self._lock:
            try:
                requests, answer = self._open_pipes()
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
                end, hint = _describe_end(*self._end())
                raise CouldNotRun("the chart", f"could not be drawn: the renderer {end}", "vl-convert", hint)
            return drawn

    def _open_pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        """Returns the pipes to and from the renderer, which is started if it does not run in this
        process. Raises CouldNotRun if vl-convert is not installed."""
        if self._process is None or self._process.poll() is not None or self._owner != os.getpid():
            # Checked here: the worker would end with a traceback.
            if find_spec("vl_convert") is None:
                with import_optional():
                    raise ModuleNotFoundError(name="vl_convert")
            # In a session of its own: Ctrl-C is for the command, and the renderer ends with its
            # standard input.
            arguments = [sys.executable, "-c", WORKER]
            # In memory: a pipe that nobody reads would fill, and a file needs a folder.
            self._errors = open(os.memfd_create("renderer"), "w+b")  # noqa: SIM115
            self._process = spawn(
                arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, folder=None
            )
            self._owner = os.getpid()
        assert self._process.stdin is not None and self._process.stdout is not None
        return self._process.stdin, self._process.stdout

    def _end(self) -> tuple[int, str]:
        """Ends the process; returns how it ended, as subprocess counts, and the end of its standard
        error."""
        process, self._process = self._process, None
        errors, self._errors = self._errors, None
        if process is None or errors is None:
            return 0, ""
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        with errors:
            try:
                code = process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
            errors.seek(max(0, errors.seek(0, os.SEEK_END) - TAIL_BYTES))
            return code, errors.read().decode(errors="replace")


def _describe_end(code: int, errors: str) -> tuple[str, str]:
    """Returns how the renderer ended, with the last line of its standard error, and a hint. A
    negative code is the signal that ended it. A lack of memory is the reason after signal 9, and
    where standard error says so."""
    lines = [line.strip("# \t\r") for line in errors.splitlines() if not FRAME.search(line.strip())]
    last = next((" ".join(line.split())[:300] for line in reversed(lines) if line), "")
    how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
    if code in KILLED:
        how += "; it lacked memory, it seems"
    hint = MEMORY_HINT if code in KILLED or "out of memory" in last else HINT
    return f"{how}: {last}" if last else how, hint


_renderer = _Renderer()


def render_svg(chart: alt.TopLevelMixin) -> str:
    """Returns an Altair chart as SVG text, drawn without a browser."""
    return render_spec(chart.to_dict())


def render_spec(spec: dict[str, Any]) -> str:
    """Returns the chart of a specification of Vega-Lite as SVG text."""
    drawn = _renderer.draw(json.dumps(spec), "svg").decode()
    # The renderer counts its clip paths on from chart to chart; counted from 0 the same chart is
    # the same text every time.
    numbers = {name: f"clip{index}" for index, name in enumerate(dict.fromkeys(re.findall(r"\bclip\d+\b", drawn)))}
    return re.sub(r"\bclip\d+\b", lambda match: numbers[match[0]], drawn)


def render_png(chart: alt.TopLevelMixin, scale: float = 2.0) -> bytes:
    """Returns an Altair chart as PNG on white, `scale` pixels for each CSS pixel."""
    spec = chart.to_dict()
    spec["config"]["background"] = "white"
    return _renderer.draw(json.dumps(spec), "png", scale)


# --- charts inside a page -------------------------------------------------------------------------


# Attributes of SVG that place something, px.
PLACED = re.compile(r'\b(transform|x|y|x1|x2|y1|y2|width|height)="([^"]*)"')
EXACT = re.compile(r"-?\d+\.\d{2,}")
STEP = re.compile(r"([ML])(-?[\d.]+),(-?[\d.]+)|Z")

PHONE_PX = 360  # the width of a chart for a phone: its 400 px without the margins of the page
LEAST_PLOT_PX = 150  # between the axes; less shows nothing
FIRST_PLOT_PX = 270  # until it is known what the labels take
TRIES = 3  # drawings until a plot and its labels are as wide as a phone
PHONE_LETTERS = 46  # of a line of a title: bold letters of 12 px are 7.5 px wide at most
PHONE_LABEL_PX = 140  # the width of the label of a row
PHONE_TICKS = 4  # of an axis from left to right: a time is some 50 px wide


def prepare_inline_svg(drawn: str, prefix: str) -> str:
    """Returns SVG text to put into a page: ids begin with `prefix`, since charts on one page share
    a name space, and places are rounded to a tenth of a pixel. The page's stylesheet sets its
    ink."""
    drawn = re.sub(r"^<\?xml[^>]*>|<!DOCTYPE[^>]*>", "", drawn).strip()
    drawn = PLACED.sub(lambda match: f'{match[1]}="{_round_places(match[2])}"', drawn)
    drawn = re.sub(r'\bd="([^"]*)"', lambda match: f'd="{_shorten_path(match[1])}"', drawn)
    drawn = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', drawn)
    drawn = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", drawn)
    return re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', drawn)


def _round_places(text: str) -> str:
    return EXACT.sub(lambda match: f"{float(match[0]):.1f}".removesuffix(".0"), text)


def _shorten_path(path: str) -> str:
    """Returns a path with rounded places, in which steps along one axis are written as `H` and `V`,
    and consecutive ones in one direction as one step. A path of curves is only rounded."""
    path = _round_places(path)
    steps = list(STEP.finditer(path))
    if "".join(step[0] for step in steps) != path:
        return path
    parts: list[tuple[str, str, bool]] = []  # letter, place, whether it goes up
    x = y = ""
    for step in steps:
        if step[0] == "Z":
            parts.append(("Z", "", False))
            continue
        before, (x, y) = (x, y), (step[2], step[3])
        if step[1] == "M" or (x != before[0] and y != before[1]):
            parts.append((step[1], f"{x},{y}", False))
        elif (x, y) != before:
            letter, place, last = ("V", y, before[1]) if x == before[0] else ("H", x, before[0])
            part = (letter, place, float(place) > float(last))
            if (parts[-1][0], parts[-1][2]) == (part[0], part[2]):
                parts.pop()
            parts.append(part)
    return "".join(letter + place for letter, place, _ in parts)


def render_phone_svg(chart: alt.TopLevelMixin) -> str | None:
    """Returns a chart as SVG text of at most the width of a phone, with fewer ticks and long words
    on several lines; None for a chart that fits as it is."""
    spec = chart.to_dict()
    widest, plot, drawn = _measure_widest(spec), FIRST_PLOT_PX, ""
    if widest <= plot:
        return None
    for _ in range(TRIES):
        drawn = render_spec(_narrow_plots(spec, widest - plot))
        size = re.search(r'<svg[^>]* width="([\d.]+)"', drawn)
        over = (float(size[1]) if size else 0.0) - PHONE_PX
        if -12 <= over <= 0 or plot == LEAST_PLOT_PX:
            break
        plot = max(LEAST_PLOT_PX, int(plot - over))
    return drawn


def _measure_widest(part: object) -> float:
    """Returns the width of the widest plot of a specification, px."""
    if isinstance(part, dict):
        own = part.get("width")
        inner = [_measure_widest(value) for name, value in part.items() if name != "datasets"]
        return max([float(own) if isinstance(own, (int, float)) else 0.0, *inner])
    return max(map(_measure_widest, part), default=0.0) if isinstance(part, list) else 0.0


def _narrow_plots(part: Any, less: float, key: str = "") -> Any:
    """Returns a part of a specification with plots that are `less` px narrower; `key`: its name."""
    if isinstance(part, list):
        return [_narrow_plots(value, less, key) for value in part]
    if not isinstance(part, dict):
        return part
    new = {name: value if name == "datasets" else _narrow_plots(value, less, name) for name, value in part.items()}
    if isinstance(width := part.get("width"), (int, float)):
        new["width"] = max(LEAST_PLOT_PX, width - less)
    if key == "x" and isinstance(at := part.get("value"), (int, float)) and at > PHONE_PX / 2:
        new["value"] = max(0, at - less)  # what stands at the right end of a plot
    if key == "x" and isinstance(new.get("axis"), dict):
        new["axis"] = new["axis"] | {"tickCount": PHONE_TICKS, "labelOverlap": True}
    if key == "axis":
        new["labelLimit"] = PHONE_LABEL_PX
    if key == "config":
        # Legends below each other, not side by side.
        new["legend"] = new.get("legend", {}) | {"layout": {"bottom": {"direction": "vertical", "anchor": "start"}}}
    elif key == "legend":
        new |= {"orient": "bottom", "columns": 1, "labelLimit": PHONE_PX - 100, "titleLimit": PHONE_PX}
    for name in ("title", "text", "subtitle"):
        words = part.get(name)
        if isinstance(words, str) and len(words) > PHONE_LETTERS - 16 and (name == "title" or key == "title"):
            new[name] = textwrap.wrap(words, PHONE_LETTERS - 16 if key == "legend" else PHONE_LETTERS)
    return new
