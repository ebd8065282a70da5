"""Gives access to the compiled core, and turns its refusals into InputError.

Every other module imports the core from here: `from headrace.base import core`. The functions are
listed in `headrace/_core.pyi`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace._core import *  # noqa: F403
from headrace._core import CoreError, newest_date
from headrace.errors import InputError, refuse_text


@contextmanager
def translate_core_errors() -> Iterator[None]:
    """Turns a refusal of the core into an InputError with the same value, rule, source and hint.

    Raises InputError for text that is not UTF-8, too: see `refuse_text`.
    """
    try:
        yield
    except CoreError as error:
        value, rule, source, hint = (str(part) for part in error.args)
        raise InputError(value, rule, source, hint) from None
    except UnicodeEncodeError as error:
        raise refuse_text(error) from None


def describe_day(as_of: str) -> str:
    """Returns a day of limits and prices in words; a day that is later than the newest of the
    catalog is followed by that one, whose limits and prices are used."""
    newest = newest_date()
    return f"{as_of} (newest known: {newest})" if as_of > newest else as_of
