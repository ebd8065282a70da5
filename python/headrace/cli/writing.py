"""Files that commands write: one rule for all of them. Nothing that exists is lost unasked.

An option that names a file to write has a `Writes` in its annotation. Before the command begins,
the file is refused with exit code 2 where it exists, unless --force is given or the option says
that a file of this kind may be replaced (a page or chart that Headrace made; of Markdown, to which
people add, only as it was made). A file that the same command reads is refused even with --force.
Commands without a --force of their own get one.

The shell waits for this file at every TAB: it imports little.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from headrace.base.options import spell_flag

FORCE_HELP = "Overwrite existing files."


@dataclass(frozen=True)
class Writes:
    """Marks an option whose value is a file that the command writes.

    `replaces`: whether a file that exists may be replaced without --force. `updates`: the parameter
    that may name the same file, because the command brings that file up to date.
    """

    replaces: Callable[[Path], bool] | None = None
    updates: str = ""

    def allows(self, path: Path) -> bool:
        """Returns whether this file may be replaced without --force."""
        return self.replaces is not None and path.is_file() and self.replaces(path)


def _is_own_page(path: Path) -> bool:
    from headrace.report.output import is_own_page

    return is_own_page(path)


WRITES_FILE = Writes()
# docs/reference/cli.md says so.
WRITES_PAGE = Writes(replaces=_is_own_page)


def find_outputs(parameters: Mapping[str, inspect.Parameter]) -> dict[str, tuple[str, Writes]]:
    """Returns the parameters that name a file to write: for each the option's name and its
    `Writes`."""
    outputs: dict[str, tuple[str, Writes]] = {}
    for name, parameter in parameters.items():
        marks = getattr(parameter.annotation, "__metadata__", ())
        writes = next((mark for mark in marks if isinstance(mark, Writes)), None)
        if writes is None:
            continue
        info = next((mark for mark in marks if isinstance(mark, typer.models.OptionInfo)), None)
        # Inside Annotated, typer's first positional argument (`default`) is the first name.
        spelled = [] if info is None else [info.default, *(info.param_decls or ())]
        long = [word for word in spelled if isinstance(word, str) and word.startswith("--")]
        outputs[name] = (long[0] if long else spell_flag(name), writes)
    return outputs


def guard_outputs(function: Callable, parameters: Mapping[str, inspect.Parameter]) -> Callable:
    """Returns the function behind a check of its output files; unchanged where it writes none.
    `parameters`: its own, with resolved annotations."""
    outputs = find_outputs(parameters)
    if not outputs:
        return function
    has_force = "force" in parameters

    @functools.wraps(function)
    def run_command(**given: object) -> object:
        force = bool(given["force"] if has_force else given.pop("force"))
        check_outputs(outputs, given, force)
        return function(**given)

    spread = list(parameters.values())
    if not has_force:
        annotation = Annotated[bool, typer.Option("--force", help=FORCE_HELP)]
        spread.append(inspect.Parameter("force", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation))
    spell_out(run_command, spread)
    return run_command


def spell_out(function: Callable, parameters: Sequence[inspect.Parameter]) -> dict[str, inspect.Parameter]:
    """Sets the signature of a function that typer reads, and returns its parameters by name."""
    by_name = {parameter.name: parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters}
    function.__signature__ = inspect.Signature(list(by_name.values()))  # pyright: ignore[reportFunctionMemberAccess]
    function.__annotations__ = {name: parameter.annotation for name, parameter in by_name.items()}
    return by_name


def check_outputs(outputs: Mapping[str, tuple[str, Writes]], given: Mapping[str, object], force: bool) -> None:
    """Refuses files that must not be written; see the module. Raises InputError."""
    from headrace.base.files import check_output, is_same_file

    for name, (option, writes) in outputs.items():
        path = given.get(name)
        if not isinstance(path, Path):
            continue
        read = [file for other, value in given.items() if other not in outputs for file in _list_files(value)]
        if writes.updates and any(is_same_file(path, file) for file in _list_files(given.get(writes.updates))):
            continue
        check_output(option, path, read, force=force or writes.allows(path))


def _list_files(value: object) -> Iterator[Path]:
    """Yields the files that a value of the command line names: a path, a word that is a file's
    name, or several of them."""
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from _list_files(part)
    elif isinstance(value, (str, Path)) and str(value):
        try:
            if os.path.isfile(value):
                yield Path(value)
        except ValueError:  # a NUL in the name
            return
