"""Options of a group: declared there once, and given before or behind the command.

    headrace --lab DIR volume list
    headrace volume --lab DIR list
    headrace volume list --lab DIR

A group declares the options; a command that has an option of the same name takes its value from the
nearest group that was given it, unless the command itself was. Help and docs/reference/cli.md list
such an option at the group alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, Unpack

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.models import OptionInfo

from headrace.base.lazy import defer_imports
from headrace.errors import InputError

with defer_imports():
    from headrace.base import packaged

if TYPE_CHECKING:
    from typer._click.core import Command, Context, Parameter
    from typer._click.formatting import HelpFormatter

# Sources of a value that somebody gave: typer's own names.
GIVEN = ("COMMANDLINE", "ENVIRONMENT")


class OptionDetails(TypedDict, total=False):
    """Details of an option besides its names, its metavar and its help: a range, a value that is no
    file to read, and how the shell completes it."""

    min: float
    max: float
    readable: bool
    autocompletion: Callable[..., list[str]]


def make_option(metavar: str | None, help: str, *names: str, **more: Unpack[OptionDetails]) -> OptionInfo:
    """Returns an option; without names it is called as its parameter is: `log_dir` is --log-dir."""
    return typer.Option(*names, metavar=metavar, help=help, **more)


def make_choice(help: str, *names: str, **more: Unpack[OptionDetails]) -> OptionInfo:
    """Returns an option whose values stand in its type (a Literal)."""
    return typer.Option(*names, help=help, **more)


# The options of `headrace` itself: the lab, a server's password, the form of the answer.
Output = Literal["table", "json", "csv"]
OutputOption = Annotated[Output, make_choice("Form of the answer on stdout.")]
LabOption = Annotated[
    Path | None,
    make_option(
        "DIR",
        "Directory of the lab. Default: $HEADRACE_LAB, else /var/lib/headrace.",
        "--lab",
        readable=False,
    ),
]
SocketOption = Annotated[
    Path | None, make_option("FILE", "Socket of the lab. Default: lab.sock in the directory.", readable=False)
]
DefaultsFileOption = Annotated[
    Path | None, make_option("FILE", "Option file whose [client] has the password (only its owner may read it).")
]
AskPasswordOption = Annotated[bool, typer.Option("--ask-password", "-p", help="Ask for the password on the terminal.")]


def read_epilog(name: str) -> str:
    """Returns what stands below the help of a command: examples first, from `epilogs/NAME.txt`,
    where `\\b` keeps the lines of a paragraph as they are."""
    return packaged.read_text("headrace.cli", "epilogs", f"{name}.txt").rstrip("\n").replace("\\b", "\b")


def list_options(command: Command) -> list[TyperOption]:
    """Returns the options that a command or group accepts, without --help."""
    return [param for param in command.params if isinstance(param, TyperOption) and param.name != "help"]


def is_same(option: TyperOption, other: TyperOption) -> bool:
    """Returns whether two options are declared alike: names, help and default."""
    return (option.opts, option.help, option.default) == (other.opts, other.help, other.default)


def find_declaring(option: TyperOption, above: Iterable[Command]) -> Command | None:
    """Returns the outermost group above a command that declares its option too; None where the
    command alone does. `above`: the groups, the outermost first."""
    return next((group for group in above if any(is_same(option, other) for other in list_options(group))), None)


def list_own_options(command: Command, above: Sequence[Command]) -> list[TyperOption]:
    """Returns the options of a command that no group above it declares."""
    return [option for option in list_options(command) if find_declaring(option, above) is None]


def list_flags(command: Command, above: Sequence[Command], group: Command) -> list[str]:
    """Returns the names of a command's options that `group` declares."""
    return [option.opts[0] for option in list_options(command) if find_declaring(option, above) is group]


def list_contexts(context: Context) -> list[Context]:
    """Returns the contexts of the groups above a command, the outermost first."""
    above, group = [], context.parent
    while group is not None:
        above.insert(0, group)
        group = group.parent
    return above


def list_accepted(context: Context) -> list[TyperOption]:
    """Returns the options that a command or group of a command line accepts: its own, and those of
    the groups above it."""
    return [param for param in context.command.get_params(context) if isinstance(param, TyperOption)]


def collect_given(context: Context) -> dict[str, object]:
    """Returns by name the values that were given to the groups above a command. Raises InputError
    for one that the command has no use for; those of `headrace` itself are ignored then, so that an
    alias can hold them."""
    given: dict[str, object] = {}
    names = {param.name for param in context.command.params}
    for above in list_contexts(context):
        for option in list_accepted(above):
            source = above.get_parameter_source(option.name)
            if source is None or source.name not in GIVEN:
                continue
            if option.name not in names and above.parent is not None:
                rule = f"is not an option of `{context.command_path}`"
                raise InputError(option.opts[0], rule, f"{context.command_path} --help", "Leave it out.")
            given[option.name] = above.params[option.name]
    return given


def write_options(command: Command, context: Context, formatter: HelpFormatter) -> None:
    """Writes into a help text the arguments and own options of a command, and the names of the
    options that groups above it declare."""
    contexts = list_contexts(context)
    above = [group.command for group in contexts]
    own = {id(option) for option in list_own_options(command, above)}
    params = [param for param in command.get_params(context) if id(param) in own or param.name == "help"]
    arguments = [param for param in command.params if isinstance(param, TyperArgument)]
    for title, rows in (("Arguments", arguments), ("Options", params)):
        if records := [record for param in rows if (record := param.get_help_record(context)) is not None]:
            with formatter.section(title):
                formatter.write_dl(records)
    words = context.command_path.split()
    for depth, group in enumerate(above, 1):
        if flags := list_flags(command, above, group):
            with formatter.section(f"Options of {' '.join(words[:depth])} (see its --help)"):
                formatter.write_text(", ".join(flags))


class SharingCommand(TyperCommand):
    """A command that takes options of the groups above it."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Parses the arguments; values that were given to groups above replace the defaults."""
        ctx.default_map = collect_given(ctx)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Writes arguments and options."""
        write_options(self, ctx, formatter)


class SharingGroup(TyperGroup):
    """A group whose options hold for the commands below it. It accepts those of the groups above it
    too, and hands them on."""

    def __init__(self, **settings: Any) -> None:
        """Replaces the callback: it has declared the options, and has nothing else to do."""
        settings["callback"] = None
        super().__init__(**settings)

    def get_params(self, ctx: Context) -> list[Parameter]:
        """Returns its own parameters, and the options of the groups above it; those that act at
        once (--version) stay above."""
        params = super().get_params(ctx)
        names = {param.name for param in params}
        above = {option.name: option for group in list_contexts(ctx) for option in list_options(group.command)}
        return params + [option for name, option in above.items() if name not in names and not option.is_eager]

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Writes options and commands."""
        write_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)


def walk(
    command: Command, name: str, above: tuple[Command, ...] = ()
) -> Iterator[tuple[str, Command, tuple[Command, ...]]]:
    """Yields a command and all below it, depth first: full name, command, groups above it."""
    yield name, command, above
    if isinstance(command, TyperGroup):
        for below, child in command.commands.items():
            yield from walk(child, f"{name} {below}", (*above, command))
