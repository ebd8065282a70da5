"""Checks single values that a user gives, and words them for errors and for results in Python."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from importlib import import_module
from typing import TYPE_CHECKING

from headrace.errors import InputError, Refusals

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

refuse = Refusals("docs/reference/workload-file.md, Limits")
refuse_key = Refusals("docs/reference/workload-file.md")
refuse_argument = Refusals("docs/reference/python.md")
refuse_option = Refusals("the command's --help")


def check_name(name: object) -> str:
    """Returns a name of 1 to 200 printable characters, not only blanks, or raises InputError."""
    if not isinstance(name, str) or not name.strip() or len(name) > 200 or not name.isprintable():
        raise refuse.input(f"name = {quote_value(name)}", "must be 1 to 200 printable characters")
    return name


def check_choice(
    what: str, value: object, choices: Collection[str], refusals: Refusals = refuse_key, hint: str = ""
) -> str:
    """Returns a value of `choices`, or raises an InputError of `refusals` that suggests the nearest
    choice, else gives `hint`. `what`: the name of the value in the error."""
    if isinstance(value, str) and value in choices:
        return value
    rule = f"must be one of {', '.join(choices)}"
    raise refusals.input(f"{what} = {quote_value(value)}", rule, suggest_nearest(value, choices) or hint)


def quote_value(value: object, limit: int = 60) -> str:
    """Returns the repr of a value, cut to `limit` characters; also of integers too long to
    print."""
    try:
        text = repr(value)
    except ValueError:
        text = "a number of thousands of digits"
    return text if len(text) <= limit else text[: limit - 3] + "..."


def suggest_nearest(word: object, choices: Iterable[str]) -> str:
    """Returns `Did you mean X?`, or "" when no choice is similar. A word that differs in digits
    alone, or in the number of its dashes, is not taken for a slip: the core's rule."""
    from difflib import get_close_matches

    typed = quote_value(word, 100).strip("'\"")
    letters = re.sub("[0-9]", "", typed)
    slips = [name for name in choices if re.sub("[0-9]", "", name) != letters and name.count("-") == typed.count("-")]
    near = get_close_matches(typed, slips, n=1, cutoff=0.6)
    return f"Did you mean {near[0]}?" if near else ""


def check_text(what: str, value: object, hint: str = "", refusals: Refusals = refuse_argument) -> str:
    """Returns a value that is text, or raises an InputError of `refusals`."""
    if isinstance(value, str):
        return value
    raise refusals.input(f"{what} = {quote_value(value)}", "must be text", hint)


def check_number(
    what: str,
    value: object,
    low: float,
    high: float,
    unit: str = "",
    refusals: Refusals | None = None,
    hint: str = "",
) -> float:
    """Returns a finite number from `low` to `high` as a float, or raises an InputError of
    `refusals` with `hint`. Without `refusals`, the error cites the help of the command where `what`
    is an option (`--...`), else the reference of the workload file."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _make_range_refusal(what, quote_value(value), "must be a number", refusals, hint)
    unit = f" {unit}" if unit else ""
    if not low <= value <= high:  # NaN compares false, so it is refused here too
        rule = f"must be {low:,.10g} to {high:,.10g}{unit}"
        raise _make_range_refusal(what, f"{quote_value(value, 40)}{unit}", rule, refusals, hint)
    return float(value)


def check_whole(what: str, value: object, low: int, high: int, refusals: Refusals | None = None) -> int:
    """Returns a whole number from `low` to `high`, or raises an InputError of `refusals` (None: as
    in `check_number`)."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise _make_range_refusal(what, quote_value(value, 40), f"must be a whole number {low:,} to {high:,}", refusals)
    return value


def read_percent(text: str | None, what: str) -> float | None:
    """Reads `5%`, `5` or `0.5%` as 5.0 or 0.5 percent; None stays None. Raises InputError."""
    if text is None:
        return None
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,9})?)\s*%?", text.strip(), re.ASCII)
    if match is None or float(match[1]) > 100:
        raise InputError(f"{what} {text[:40]}", "must be a percentage, 0 to 100", "", "For example 5% or 5.")
    return float(match[1])


def _make_range_refusal(what: str, value: str, rule: str, refusals: Refusals | None, hint: str = "") -> InputError:
    """Returns the error of a number out of its range, with the source that `check_number` names."""
    is_option = what.startswith("--")
    refusals = refusals or (refuse_option if is_option else refuse)
    return refusals.input(f"{what} = {value}", rule, hint or ("Give a number in that range." if is_option else ""))


class Shown(ABC):
    """Base class of results, for Python and notebooks: `repr` is the class with
    `describe_briefly()` in parentheses, and a notebook shows the HTML of `headrace.report_html`."""

    @abstractmethod
    def describe_briefly(self) -> str:
        """Returns a description in a few words."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.describe_briefly()})"

    def _repr_html_(self) -> str:
        # `report` imports the rooms of results, so results reach it through the facade alone.
        return import_module("headrace").report_html(self)
