"""The compiled core, and its refusals as errors of ours.

Every other module takes the core from here: `from headrace.base import core`. What it offers stands
in `headrace/_core.pyi`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace._core import *  # noqa: F403
from headrace._core import CoreError
from headrace.errors import InputError


@contextmanager
def core_errors() -> Iterator[None]:
    """Turns a refusal of the core into an InputError with the same value, rule, source and hint.

    Bytes of a command line that are no UTF-8 reach Python as surrogates: they are refused before
    the core can read it.
    """
    try:
        yield
    except CoreError as error:
        value, rule, source, hint = (str(part) for part in error.args)
        raise InputError(value, rule, source, hint) from None
    except UnicodeEncodeError as error:
        raise InputError(repr(error.object), "is not text in UTF-8", "The Unicode Standard", "Type it anew.") from None
