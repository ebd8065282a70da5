"""Workloads that a browser names: the examples and benchmarks of the command line, a few answers,
and files that were dropped into the page.

    demo:day    sysbench-tpcc:warehouses=1000,cache_gib=25,threads=16
    new:reads_per_s=900,writes_per_s=400,size_gib=300
    file:SHA256                                          of what was uploaded
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from headrace import workload as workloads
from headrace.base.checks import quote_value
from headrace.base.files import OWN_FILE, guess
from headrace.calibration.named import read_named
from headrace.observe import formats
from headrace.observe.recording import decode_recording
from headrace.ui.remembered import RememberedFiles
from headrace.ui.spelling import refuse, spell_command

AnyWorkload = workloads.Workload | workloads.TransactionWorkload
NEW, FILE = "new:", "file:"
# Files that are remembered: some MiB.
MOST_FILES = 16
LONGEST_NAME = 80  # characters of a file's name
UNNAMED = "workload"
DAY = "daily"  # the name of a day that is given none, as on the command line


@dataclass(frozen=True)
class Upload:
    """A file that was dropped into the page. `is_recording`: it was imported, and is not a workload
    file."""

    name: str
    workload: AnyWorkload
    is_recording: bool


class Workloads:
    """Finds the workload that a text names, and remembers files by their content."""

    def __init__(self) -> None:
        self._files = RememberedFiles[Upload](MOST_FILES)

    def add(self, name: str, content: bytes) -> str:
        """Reads and remembers a workload file or a recording, and returns the text by which
        questions name it. Raises InputError."""
        name = clean_name(name)
        is_recording = guess(content.decode(errors="replace")) != OWN_FILE
        workload = read_recording(name, content) if is_recording else workloads.parse(name, content)
        return f"{FILE}{self._files.add(content, Upload(name, workload, is_recording))}"

    def find(self, text: str) -> AnyWorkload:
        """Returns the workload of a text. Raises InputError."""
        return self._upload(text).workload if text.startswith(FILE) else read_text(text)

    def spell(self, text: str) -> tuple[list[str], str]:
        """Returns the commands that write the workload's file, if any, and the argument that names
        the workload on a command line."""
        if text.startswith(NEW):
            answers = split_answers(text)
            file = f"{clean_name(answers.get('name') or UNNAMED)}.toml"
            arguments = [word for name, value in answers.items() for word in (f"--{name.replace('_', '-')}", value)]
            return [spell_command(["workload", "new", *arguments, "--to", file])], file
        if not text.startswith(FILE):
            return [], text
        upload = self._upload(text)
        if not upload.is_recording:
            return [], upload.name
        file = f"{PurePosixPath(upload.name).stem}.toml"
        return [spell_command(["workload", "import", upload.name, "--to", file])], file

    def _upload(self, text: str) -> Upload:
        return self._files.find(text.removeprefix(FILE))


@lru_cache(maxsize=32)
def read_text(text: str) -> AnyWorkload:
    """Returns the workload that a text describes without a file; results are cached. Raises
    InputError."""
    if text.startswith(NEW):
        return make_day(split_answers(text))
    workload = read_named(text)
    if workload is None:
        hint = "Name demo:day or a benchmark such as sysbench-tpcc:..., or drop a file into the page."
        raise refuse.input(quote_value(text), "is not a workload that the page knows, and it reads no paths", hint)
    return workload


def split_answers(text: str) -> dict[str, str]:
    """Returns the answers in `new:KEY=VALUE,KEY=VALUE`. Raises InputError."""
    answers: dict[str, str] = {}
    for part in filter(None, text.removeprefix(NEW).split(",")):
        key, equals, value = part.partition("=")
        if not equals or key in answers:
            raise refuse.input(quote_value(part), "must be KEY=VALUE, each key once")
        answers[key] = value
    return answers


def make_day(texts: dict[str, str]) -> AnyWorkload:
    """Returns the day that answers describe, each checked as on the command line. Raises
    InputError."""
    questions = {question.name: question for question in workloads.list_questions()}
    answers: dict[str, object] = {}
    for name, value in texts.items():
        if name not in questions:
            raise refuse.input(quote_value(name), f"is not a question about a day; they are {', '.join(questions)}")
        answers[name] = questions[name].validator(value)
    return workloads.from_answers(answers)


def read_recording(name: str, content: bytes) -> AnyWorkload:
    """Returns the demand in a recording of a device. Raises InputError."""
    return formats.parse_recording(decode_recording(name, content)).build_workload()


def clean_name(name: str) -> str:
    """Returns a file's name without its folder and without what a terminal or a shell would act
    on."""
    last = re.split(r"[/\\]", name)[-1]
    return re.sub(r"[^\w .+-]", "_", last)[:LONGEST_NAME].strip(" .-") or UNNAMED
