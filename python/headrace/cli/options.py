"""Options, arguments and completions that commands share, and groups of options.

The shell waits for this file at every TAB: it imports typer and the errors, and no more.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Unpack

import typer
from typer.models import OptionInfo

from headrace.base.lazy import defer_imports
from headrace.base.options import OptionField, find_option, read_hints, read_setting
from headrace.cli.sharing import (
    AskPasswordOption,
    DefaultsFileOption,
    LabOption,
    OptionDetails,
    SharingCommand,
    SharingGroup,
    SocketOption,
    make_choice,
    make_option,
)
from headrace.cli.sharing import Output as Output
from headrace.cli.sharing import OutputOption as OutputOption
from headrace.cli.writing import WRITES_PAGE, guard_outputs, spell_out
from headrace.errors import HeadraceError

with defer_imports():
    from headrace import lab as lab_client
    from headrace import mysql, servers
    from headrace.base import core

if TYPE_CHECKING:
    from headrace.lab import Lab
    from headrace.mysql import Address

TableOrJson = Literal["table", "json"]  # for answers that are not rows of one kind
Engine = Literal["innodb", "myrocks"]
Completion = Callable[..., list[str]]

# Longest wait of the shell for a lab that does not answer, s: a guess.
COMPLETION_S = 1.0


def make_flag(name: str, help: str, **more: Unpack[OptionDetails]) -> OptionInfo:
    """Returns a switch: `--force`, or `--merge/--no-merge`."""
    return typer.Option(name, help=help, **more)


class CommandGroup(typer.Typer):
    """Commands of one subject. A parameter whose type is a dataclass of options stands for all of
    them: the command gets one value of that class. `shares`: classes whose options are the group's
    (`headrace.cli.sharing`)."""

    def __init__(self, help: str, epilog: str = "", shares: Sequence[type] = ()) -> None:
        super().__init__(
            cls=SharingGroup,
            no_args_is_help=True,
            help=help,
            epilog=epilog,
            rich_markup_mode=None,
            add_completion=False,
        )
        if shares:
            self.callback()(take_shared(shares))

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Callable], Callable]:
        """Registers a command as typer does, with option groups."""
        register = super().command(name, cls=SharingCommand, **settings)

        def decorate(function: Callable) -> Callable:
            register(with_groups(function))
            return function

        return decorate


def with_groups(function: Callable) -> Callable:
    """Returns the function as typer takes it: the fields of its option groups are parameters behind
    the others, and its output files are checked before it runs (`headrace.cli.writing`)."""
    spread: list[inspect.Parameter] = []
    groups: dict[str, tuple[type, dict[str, OptionField | None]]] = {}
    hints = read_hints(function)
    for name, parameter in inspect.signature(function).parameters.items():
        hint = hints[name]
        if isinstance(hint, type) and is_dataclass(hint):
            groups[name] = hint, {}
        else:
            spread.append(as_typer(parameter, hint)[0])
    for group, settings in groups.values():
        for parameter, setting in spread_group(group):
            settings[parameter.name] = setting
            spread.append(parameter)
    if not groups and all(find_option(hint) is None for hint in hints.values()):
        return guard_outputs(function, {parameter.name: parameter for parameter in spread})

    @functools.wraps(function)
    def run_command(**given: object) -> object:
        filled = {
            name: group(**adapt_values(settings, {field: given.pop(field) for field in settings}))
            for name, (group, settings) in groups.items()
        }
        return function(**given, **filled)

    return guard_outputs(run_command, spell_out(run_command, spread))


def spread_group(group: type) -> Iterator[tuple[inspect.Parameter, OptionField | None]]:
    """Yields the options of a dataclass as parameters of typer, each with its setting."""
    hints = read_hints(group)
    for field in inspect.signature(group).parameters.values():
        if hasattr(hints[field.name], "__metadata__"):
            yield as_typer(field, hints[field.name])


def take_shared(groups: Sequence[type]) -> Callable[..., None]:
    """Returns a function for the callback of a group, which accepts the options of dataclasses, not
    their arguments, and does nothing: the commands below read them."""

    def accept(**_: object) -> None: ...

    parameters = [parameter for group in groups for parameter, _ in spread_group(group)]
    spell_out(accept, [parameter for parameter in parameters if not is_argument(parameter.annotation)])
    return accept


def is_argument(annotation: object) -> bool:
    """Returns whether a parameter is an argument, which has no name on the command line."""
    return any(isinstance(mark, typer.models.ArgumentInfo) for mark in getattr(annotation, "__metadata__", ()))


def as_typer(parameter: inspect.Parameter, annotation: object) -> tuple[inspect.Parameter, OptionField | None]:
    """Returns a parameter whose annotation has an `Option` as typer takes it, with its setting; any
    other as it is."""
    option = find_option(annotation)
    if option is None:
        return parameter.replace(annotation=annotation), None
    required = parameter.default is inspect.Parameter.empty
    setting = read_setting(parameter.name, annotation, None if required else parameter.default)
    kind: Any = Literal[setting.choices] if setting.choices else TYPES[setting.kind]
    kind = list[str] if setting.many else kind
    names = [setting.flag]
    if setting.kind == "switch" and setting.default is not False:
        names = [f"{setting.flag}/--no-{setting.flag.removeprefix('--')}"]
    least, most = (option.least, option.most) if setting.is_number else (None, None)
    if setting.kind == "whole":
        least, most = (None if limit is None else int(limit) for limit in (least, most))
    mark = typer.Option(
        *names,
        help=setting.help + (" Repeatable." if setting.many and not option.commas else ""),
        metavar=None if setting.kind in ("switch", "choice") else option.metavar,
        autocompletion=COMPLETIONS.get(option.completed),
        min=least,
        max=most,
    )
    default = parameter.default if required or not setting.many else None
    kind = kind if required or default is not None else kind | None
    return parameter.replace(annotation=Annotated[kind, mark], default=default), setting


def adapt_values(settings: dict[str, OptionField | None], values: dict[str, object]) -> dict[str, object]:
    """Returns the values of an option group by field: what was given with commas or several times
    as a list; without lists that were not given, which keep their defaults."""
    fitting = {}
    for name, value in values.items():
        setting = settings[name]
        if setting is not None and setting.many:
            texts = value if isinstance(value, (list, tuple)) else ()
            value = split_list(texts) if setting.option.commas else texts
            if not value:
                continue
        fitting[name] = value
    return fitting


def split_list(values: Sequence[str] | None) -> list[str]:
    """Returns the parts of repeated options and of options with commas as a list."""
    return [part.strip() for value in values or () for part in value.split(",") if part.strip()]


def complete_type(incomplete: str) -> list[str]:
    """Returns volume types for the shell."""
    names = dict.fromkeys(era["volume_type"] for era in core.volume_eras(all_eras=True))
    return [name for name in names if name.startswith(incomplete)]


def complete_storage(incomplete: str) -> list[str]:
    """Returns storages up to their size, which the user must choose, for the shell: `gp3:`."""
    head = incomplete.rpartition("x")[0] + "x" if "x" in incomplete else ""
    return [f"{head}{name}:" for name in complete_type(incomplete.removeprefix(head).rstrip(":"))]


def complete_region(incomplete: str) -> list[str]:
    """Returns regions with prices for the shell."""
    return [name for name in core.regions() if name.startswith(incomplete)]


def complete_instance(incomplete: str) -> list[str]:
    """Returns instance types for the shell."""
    return [item["instance_type"] for item in core.instances() if item["instance_type"].startswith(incomplete)]


def complete_volume(context: typer.Context, incomplete: str) -> list[str]:
    """Returns names of volumes for the shell, ids of those without one; none when no lab
    answers."""
    try:
        with open_lab(context) as lab:
            names = [volume.get("name") or volume["id"] for volume in lab.volumes()]
    except (HeadraceError, OSError, KeyError):
        return []
    return [name for name in names if name.startswith(incomplete)]


def open_lab(context: typer.Context) -> Lab:
    """Returns the lab that a half-typed command line names. Raises HeadraceError."""
    return lab_client.Lab(context.params.get("data_dir"), context.params.get("socket"), timeout_s=COMPLETION_S)


# Functions by which the shell completes a value, by the name that its option gives.
COMPLETIONS: dict[str, Completion] = {
    "instance": complete_instance,
    "region": complete_region,
    "storage": complete_storage,
    "type": complete_type,
    "volume": complete_volume,
}
TYPES: dict[str, type] = {"switch": bool, "whole": int, "number": float, "file": Path, "text": str}


def make_storage_option(help: str, *names: str, metavar: str = "SPEC") -> OptionInfo:
    """Returns an option whose value is a storage in the catalog's notation."""
    return typer.Option(*names, metavar=metavar, help=help, autocompletion=complete_storage)


def make_instance_option(help: str, *names: str) -> OptionInfo:
    """Returns an option whose value is an EC2 instance type."""
    return typer.Option(*names, metavar="TYPE", help=help, autocompletion=complete_instance)


TableOrJsonOption = Annotated[TableOrJson, make_choice("Form of the answer on stdout.", "--output")]
# The rule is WRITES_PAGE.
REPLACES = "It replaces one that Headrace wrote, but no Markdown that was changed since."
ReportOption = Annotated[
    Path | None, make_option("FILE", f"Write a page with charts (.html), or Markdown (.md). {REPLACES}"), WRITES_PAGE
]
PageOrChartOption = Annotated[
    Path | None,
    make_option(
        "FILE", f"Write a page with charts (.html), Markdown (.md), or one chart (.svg, .png). {REPLACES}", "--report"
    ),
    WRITES_PAGE,
]
ForceOption = Annotated[bool, typer.Option("--force", "--yes", "-y", help="Overwrite existing files.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
NameOption = Annotated[str | None, make_option("NAME", "Name to store it under.")]
FILE = "A workload file"
DEMAND = "demo:day or demo:hour (the recorded example); a closed load in fio's words: fio:rw=randread,bs=16k,iodepth=16,numjobs=1"
DATABASE = "a standard benchmark: sysbench-tpcc:warehouses=1000,cache_gib=25,threads=16"
WorkloadArgument = Annotated[str, typer.Argument(metavar="WORKLOAD", help=f"{FILE}; {DEMAND}; or {DATABASE}.")]
DemandArgument = Annotated[str, typer.Argument(metavar="WORKLOAD", help=f"{FILE}; {DEMAND}.")]
DatabaseArgument = Annotated[
    str, typer.Argument(metavar="WORKLOAD", help=f"{FILE} (`headrace calibrate` writes it); or {DATABASE}.")
]
SetOption = Annotated[
    list[str] | None,
    make_option(
        "NAME=VALUE",
        "A setting of the server, as in its option file: innodb_io_capacity=2000. Repeatable. Default: as measured.",
        "--set",
    ),
]
VolumeArgument = Annotated[str, typer.Argument(metavar="VOL", help="Id or name.", autocompletion=complete_volume)]
TagOption = Annotated[list[str] | None, make_option("K=V", "A tag. Repeatable.")]
SettingOption = Annotated[list[str] | None, make_option("K=V", "An option of the server, on top. Repeatable.", "--set")]
MemberOption = Annotated[int | None, make_option("N", "Only this member of an array, counted from 0.", min=0)]


@dataclass(frozen=True, kw_only=True)
class LabPlace:
    """The lab that a command uses."""

    data_dir: LabOption = None
    socket: SocketOption = None

    def open(self) -> Lab:
        """Returns a client of the lab. Raises NoLab where none answers."""
        return lab_client.Lab(self.data_dir, self.socket)


@dataclass(frozen=True, kw_only=True)
class PasswordOptions:
    """The source of a MySQL account's password."""

    defaults_file: DefaultsFileOption = None
    ask_password: AskPasswordOption = False

    def read_address(self, text: str) -> Address:
        """Returns the address with its password, from the option file or asked for on the terminal.
        Raises InputError."""
        address = servers.parse_address(text, defaults_file=self.defaults_file)
        if self.ask_password:
            typed = typer.prompt(
                f"Password of {address.user}", hide_input=True, err=True, default="", show_default=False
            )
            address = address.with_password(mysql.Secret(typed))
        return address
