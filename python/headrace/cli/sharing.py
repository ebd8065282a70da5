"""Options of a group: declared there once, and given before or behind the command.

    headrace --lab DIR volume list
    headrace volume list --lab DIR

A group declares the options; a command that has an option of the same name takes its value from the
nearest group that was given it, unless the command itself was. Help and docs/reference/cli.md list
such an option at the group alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from typer.core import TyperCommand, TyperGroup

from headrace.errors import InputError

# Sources of a value that somebody gave: typer's own names.
GIVEN = ("COMMANDLINE", "ENVIRONMENT")


def list_options(command: Any) -> list[Any]:
    """Returns the options that a command or group accepts, without --help."""
    return [param for param in command.params if param.param_type_name == "option" and param.name != "help"]


def is_same(option: Any, other: Any) -> bool:
    """Returns whether two options are declared alike: names, help and default."""
    return (option.opts, option.help, option.default) == (other.opts, other.help, other.default)


def find_declaring(option: Any, above: Iterable[Any]) -> Any:
    """Returns the group that declares an option of a command below it, None where the command's own
    declaration is the only one. `above`: the groups, the outermost first."""
    return next((group for group in above if any(is_same(option, other) for other in list_options(group))), None)


def list_own_options(command: Any, above: Sequence[Any]) -> list[Any]:
    """Returns the options of a command that no group above it declares."""
    return [option for option in list_options(command) if find_declaring(option, above) is None]


def list_contexts(context: Any) -> list[Any]:
    """Returns the contexts of the groups above a command, the outermost first."""
    above = []
    while (context := context.parent) is not None:
        above.insert(0, context)
    return above


def collect_given(context: Any) -> dict[str, Any]:
    """Returns by name the values that were given to the groups above a command. Raises InputError
    for one that the command has no use for; those of `headrace` itself are for the commands that use
    them, so that an alias can hold them."""
    given: dict[str, Any] = {}
    names = {param.name for param in context.command.params}
    for above in list_contexts(context):
        for option in list_options(above.command):
            source = above.get_parameter_source(option.name)
            if source is None or source.name not in GIVEN:
                continue
            if option.name not in names and above.parent is not None and not hasattr(context.command, "commands"):
                rule = f"is not an option of `{context.command_path}`"
                raise InputError(option.opts[0], rule, f"{context.command_path} --help", "Leave it out.")
            given[option.name] = above.params[option.name]
    return given


class Sharing:
    """What commands and groups do with the options of the groups above them."""

    params: list[Any]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the arguments; what a group above was given stands for the default."""
        if not hasattr(self, "commands"):
            ctx.default_map = collect_given(ctx)
        return super().parse_args(ctx, args)  # pyright: ignore[reportAttributeAccessIssue]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes arguments, own options, names of those of the groups above, commands."""
        contexts = list_contexts(ctx)
        above = [context.command for context in contexts]
        arguments = [param for param in self.params if param.param_type_name == "argument"]
        helping = [param for param in (ctx.command.get_help_option(ctx),) if param is not None]
        own = [*list_own_options(self, above), *helping]
        for title, params in (("Arguments", arguments), ("Options", own)):
            if records := [record for param in params if (record := param.get_help_record(ctx)) is not None]:
                with formatter.section(title):
                    formatter.write_dl(records)
        for context in contexts:
            if flags := list_flags(self, above, context.command):
                with formatter.section(f"Options of {context.command_path.split(' [')[0]} (see its --help)"):
                    formatter.write_text(", ".join(flags))
        if hasattr(self, "commands"):
            self.format_commands(ctx, formatter)  # pyright: ignore[reportAttributeAccessIssue]


def list_flags(command: Any, above: Sequence[Any], group: Any) -> list[str]:
    """Returns the names of a command's options that `group` declares."""
    return [option.opts[0] for option in list_options(command) if find_declaring(option, above) is group]


def walk(command: Any, name: str, above: tuple[Any, ...] = ()) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """Yields a command and all below it, depth first: full name, command, groups above it."""
    yield name, command, above
    for below, child in getattr(command, "commands", {}).items():
        yield from walk(child, f"{name} {below}", (*above, command))


class SharingCommand(Sharing, TyperCommand):
    """A command that takes options of the groups above it."""


class SharingGroup(Sharing, TyperGroup):
    """A group whose options hold for the commands below it."""
