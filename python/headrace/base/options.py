"""Settings that describe themselves: an `Option` stands in the annotation of its field.

    @dataclass(frozen=True, kw_only=True)
    class Settings:
        free_percent: Annotated[float, Option("Share that stays free.", unit="percent")] = 25.0

The command line, the check of ranges, the docstring of the function that takes the settings and
docs/reference/cli.md read it. The field gives name, type, choices (a Literal) and default.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    TypedDict,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from headrace.base.checks import check_choice, check_number, check_whole, quote_value
from headrace.base.units import Day
from headrace.errors import InputError, Refusals

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


refuse = Refusals("docs/reference/cli.md")
Kind = Literal["switch", "choice", "whole", "number", "file", "text"]
Completed = Literal["", "instance", "region", "storage", "type", "volume"]
# The default of a field whose option names the value that holds where none is given (`otherwise`):
# None at run time, so that what was given can be told from what was not.
UNSET: Any = None
A = TypeVar("A")
B = TypeVar("B")
R = TypeVar("R")
S = TypeVar("S", bound="DataclassInstance")
P = ParamSpec("P")


@dataclass(frozen=True)
class Option:
    """Describes a setting. `help`: a sentence that begins with a noun or an imperative. `unit`: as
    in errors. `least`, `most`: its range, both included. `otherwise`: the value that stands for
    None; `usual`: the words for None, where no value stands for it. `value`: the word for its value
    where it has no unit. `scope`: the only case in which it has a meaning, such as "Database".
    `name`: on the command line, where it is not the field's. `completed`: the kind of names that
    the shell completes it with. `commas`: several values may stand in one text.
    """

    help: str
    unit: str = ""
    least: float | None = None
    most: float | None = None
    otherwise: object = None
    usual: str = ""
    value: str = ""
    scope: str = ""
    name: str = ""
    completed: Completed = ""
    commas: bool = False

    @property
    def metavar(self) -> str:
        """The word for the value in a help text; without `value` the unit, such as GIB_PER_DAY."""
        return self.value or self.unit.upper().replace(" A ", "_PER_") or "N"


def spell_flag(name: str) -> str:
    """Returns the name of a setting on the command line, dashes included."""
    return f"--{name.replace('_', '-')}"


class SettingRow(TypedDict):
    """A setting as a page reads it to build a control; what it does not have is None."""

    name: str
    flag: str
    kind: Kind
    many: bool
    unit: str | None
    least: float | None
    most: float | None
    choices: list[str] | None
    default: object
    usual: str | None
    scope: str | None
    help: str


@dataclass(frozen=True)
class OptionField:
    """An option with the name, type and default of the field that it stands at. `many`: its value
    is a list. `empty`: it may be None, and is by default."""

    name: str
    option: Option
    kind: Kind
    many: bool
    empty: bool
    choices: tuple[str, ...]
    default: object

    @property
    def flag(self) -> str:
        """The name on the command line, dashes included."""
        return spell_flag(self.option.name or self.name)

    @property
    def help(self) -> str:
        """The help of the option, with its scope before and the words of its default behind."""
        option = self.option
        scoped = f"{option.scope}: {option.help[0].lower()}{option.help[1:]}" if option.scope else option.help
        return scoped + (f" Default: {self.usual}." if self.usual else "")

    @property
    def usual(self) -> str:
        """The value that stands for None, in words; "" where the default is a value."""
        value = self.option.otherwise
        return self.option.usual or ("" if value is None else f"{value:,.10g}" if self.is_number else str(value))

    @property
    def is_number(self) -> bool:
        """True if the option's value is a number."""
        return self.kind in ("number", "whole")

    def describe(self) -> SettingRow:
        """Returns the setting as a row for a page, of values that JSON can hold."""
        option = self.option
        return {
            "name": self.name,
            "flag": self.flag,
            "kind": self.kind,
            "many": self.many,
            "unit": option.unit or None,
            "least": option.least,
            "most": option.most,
            "choices": list(self.choices) or None,
            "default": list(self.default) if isinstance(self.default, tuple) else self.default,
            "usual": self.usual or None,
            "scope": option.scope or None,
            "help": option.help,
        }

    def check(self, value: object) -> object:
        """Returns a value of the setting, a number as a float. Raises InputError for a value that
        is out of range, or is not one of the choices."""
        low, high = self.option.least, self.option.most
        if self.many or (value is None and self.empty):
            return value
        if self.kind == "choice":
            return check_choice(self.name, value, self.choices, refuse)
        if self.kind == "switch" and not isinstance(value, bool):
            raise refuse.input(f"{self.name} = {quote_value(value)}", "must be True or False")
        if low is None or high is None:
            return value
        if self.kind == "whole":
            return check_whole(self.name, value, int(low), int(high))
        return check_number(self.name, value, low, high, self.option.unit)

    def format_for_docstring(self) -> str:
        """Returns the lines that describe the setting in a docstring."""
        option = self.option
        facts = [self.option.unit or self.option.value, " or ".join(self.choices)]
        if option.least is not None and option.most is not None:
            facts.append(f"{option.least:,.10g} to {option.most:,.10g}")
        if not self.usual and self.default is not None:
            facts.append(f"default {self.default!r}")
        head = f"- `{self.name}` ({', '.join(fact for fact in facts if fact)}): {self.help}"
        return textwrap.fill(head, 96, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)


def find_option(annotation: object) -> Option | None:
    """Returns the Option in an annotation, None if it has none."""
    return next((mark for mark in getattr(annotation, "__metadata__", ()) if isinstance(mark, Option)), None)


def read_setting(name: str, annotation: object, default: object) -> OptionField:
    """Returns the option in a resolved `annotation` of a field, with its name, type and default."""
    bare = get_args(annotation)[0]
    kinds = list(get_args(bare)) if get_origin(bare) not in (None, Literal, list, tuple, Sequence) else [bare]
    kinds = [kind for kind in kinds if not isinstance(kind, str)]
    choices = next((get_args(kind) for kind in kinds if get_origin(kind) is Literal), ())
    many = any(get_origin(kind) in (list, tuple, Sequence) for kind in kinds)
    types: dict[Kind, bool] = {
        "choice": bool(choices),
        "switch": bool in kinds,
        "file": Path in kinds,
        "number": float in kinds,
        "whole": int in kinds,
        "text": True,
    }
    kind: Kind = next(name for name, fits in types.items() if fits)
    option = find_option(annotation)
    assert option is not None
    return OptionField(name, option, kind, many, default is None, choices, default)


class _Names(dict[str, object]):
    """Maps names of a module to their values; a name that the module lacks, because it imports it
    for a type checker alone, is `object`."""

    def __missing__(self, name: str) -> type:
        return object


def read_hints(of: Callable[..., object]) -> dict[str, object]:
    """Returns the annotations of a class of settings or of a function, options included. Names in
    inherited annotations are looked up in the module of the base class that declares them."""
    hints: dict[str, object] = {}
    for part in reversed(of.__mro__) if isinstance(of, type) else (of,):
        names = _Names(vars(builtins) | vars(sys.modules[part.__module__]))
        own = SimpleNamespace(__annotations__=vars(part).get("__annotations__", {}))
        hints |= get_type_hints(
            own if isinstance(part, type) else part, globalns=names, localns=names, include_extras=True
        )
    return hints


@functools.cache
def list_settings(group: type) -> tuple[OptionField, ...]:
    """Returns the settings of a dataclass in the order of its fields; a field without an option is
    not a setting. The answer is cached."""
    hints = read_hints(group)
    return tuple(
        read_setting(field.name, hints[field.name], _get_default(field))
        for field in fields(group)
        if find_option(hints[field.name]) is not None
    )


def _get_default(field: Field) -> object:
    return None if field.default is MISSING else field.default


def describe(group: type) -> list[SettingRow]:
    """Returns the settings of a dataclass as rows for a page, of values that JSON can hold."""
    return [setting.describe() for setting in list_settings(group)]


def complete(settings: S) -> S:
    """Returns settings once each value is checked, with the value `otherwise` of its option in the
    place of None. Raises InputError."""
    values: dict[str, object] = {}
    for setting in list_settings(type(settings)):
        value = setting.check(getattr(settings, setting.name))
        values[setting.name] = setting.option.otherwise if value is None else value
    return replace(settings, **values)


def list_given(settings: object, scope: str = "") -> Iterator[OptionField]:
    """Yields the settings that differ from their default; with `scope`, those of that scope
    alone."""
    for setting in list_settings(type(settings)):
        if (not scope or setting.option.scope == scope) and getattr(settings, setting.name) != setting.default:
            yield setting


class takes(Generic[P, S]):
    """Decorates a function whose last parameter is a value of the dataclass `settings`: it then
    takes the fields of that dataclass as keyword arguments, and its docstring gets a line for
    each."""

    def __init__(self, settings: Callable[P, S], what: str) -> None:
        """Takes the dataclass of the settings, and `what` they are settings of ("a plan"), for the
        error of an unknown one."""
        self.settings, self.what = settings, what

    @overload
    def __call__(self, function: Callable[[A, S], R]) -> Callable[Concatenate[A, P], R]: ...
    @overload
    def __call__(self, function: Callable[[A, B, S], R]) -> Callable[Concatenate[A, B, P], R]: ...
    def __call__(self, function: Callable[..., R]) -> Callable[..., R]:
        """Returns the function with a keyword argument for each setting; a call with another
        keyword raises InputError."""
        group = self.settings
        assert isinstance(group, type)
        *parameters, last = inspect.signature(function).parameters.values()
        names, hints = {field.name: field for field in fields(group)}, read_hints(group)

        @functools.wraps(function)
        def call(*values: object, **keywords: object) -> R:
            rest = parameters[len(values) :]
            by_name = {part.name: keywords.pop(part.name) for part in rest if part.name in keywords}
            self.refuse_unknown(keywords, names, f"headrace.{function.__name__}")
            return function(*values, **by_name, **{last.name: group(**keywords)})

        options = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=_get_default(field),
                annotation=getattr(hints[name], "__origin__", hints[name]),
            )
            for name, field in names.items()
        ]
        call.__signature__ = inspect.Signature([*parameters, *options])  # pyright: ignore[reportAttributeAccessIssue]
        lines = "\n".join(setting.format_for_docstring() for setting in list_settings(group))
        call.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\nSettings, each by its name:\n\n{lines}\n"
        return call

    def refuse_unknown(self, values: Mapping[str, object], names: Collection[str], source: str) -> None:
        """Raises InputError for the first of `values` whose name is not in `names`."""
        for name, value in values.items():
            if name not in names:
                hint = f"Known: {', '.join(sorted(names))}."
                raise InputError(f"{name} = {value!r}", f"is not a setting of {self.what}", source, hint)


# Settings that several functions and commands have, declared nowhere else.
AS_OF = Option("Day whose limits and prices hold.", value="YYYY-MM-DD", usual="the newest known")
AsOf = Annotated[Day, AS_OF]
AsOfText = Annotated[str | None, AS_OF]
Region = Annotated[str, Option("AWS region whose prices hold.", value="REGION", completed="region")]
Growth = Annotated[
    float,
    Option(
        "Growth: factor on the demand and the data; 1.5 is half as much again.", value="FACTOR", least=0.001, most=1_000
    ),
]
StartBalance = Annotated[
    float | None,
    Option(
        "Credits and burst buckets at the start.",
        unit="percent",
        least=0,
        most=100,
        usual="as AWS starts them",
        name="start_balance",
    ),
]
SEED = Option("Seed of all random draws: same seed, same answer.", least=0, most=2**63 - 1)
Seed = Annotated[int, SEED]
# AWS takes this range (data/rules.toml, snapshot_restore: provisioned_rate_mib_s).
INITIALIZATION_RATE = Option(
    "Initialization rate bought for the blocks of the snapshot, which load in the background.",
    unit="MiB/s",
    value="MIB_S",
    least=100,
    most=300,
)
InitializationRate = Annotated[int | None, INITIALIZATION_RATE]
StorageText = Annotated[
    str,
    Option("Storage, such as gp2:500, 2xgp3:500:6000:250 or raid10:4xio1:100:3000.", value="SPEC", completed="storage"),
]
InstanceType = Annotated[
    str | None,
    Option("EC2 type whose EBS limits apply.", value="TYPE", usual="the volumes alone", completed="instance"),
]


# --- values as servers write them -----------------------------------------------------------------


UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4, "p": 1024**5, "e": 1024**6}
SIZE = re.compile(r"(\+?\d{1,20})([kmgtpe]?)\Z", re.ASCII | re.IGNORECASE)
TRUE = ("1", "on", "true", "yes", "detect_and_recover")
FALSE = ("0", "off", "false", "no")


def as_bytes(text: str | None) -> float | None:
    """Returns a size such as `16M` (K to E: powers of 1024) in bytes; None for another text."""
    match = SIZE.match((text or "").strip())
    return None if match is None else float(int(match[1]) * UNITS[match[2].lower()])
