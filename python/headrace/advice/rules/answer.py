"""What a rule answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.advice.situation import Situation


@dataclass(frozen=True)
class Answer:
    """A value and why. `risk`: where it differs from the table's. `settable` False: a comment in the option file. `effect`: what the rule itself can work out."""

    value: str
    why: str
    risk: str | None = None
    settable: bool = True
    effect: str | None = None


# None: the parameter says nothing here.
Rule = Callable[[Situation], Answer | None]


def fixed(value: str, why: str) -> Rule:
    """A value that depends on nothing."""
    return lambda situation: Answer(value, why)
