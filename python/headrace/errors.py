"""The errors that a user may see.

Each error says four things: the value that was met, the rule it breaks, where that rule comes from,
and what to do next. They are data, not one long sentence, so that the command line and the web page
can lay them out as they like.

    HeadraceError           exit code 2 unless it says otherwise
    ├── InputError     2    what was typed or read breaks a rule
    └── CouldNotRun    3    the input is fine, this machine or the moment is not

A module whose rules stand in one place makes its refusals by its own `Refusals`, and `raise`s them.
"""

from __future__ import annotations

import copy


class HeadraceError(Exception):
    """A refusal with its reason.

    `value` is what was met (with file and line if it has them), `rule` what it breaks, `source`
    where the rule comes from ("" when it is plain sense), `hint` what to do next, `exit_code` what
    a command should exit with, `kind` the sort of refusal for programs ("" if it has none; those of
    the lab are in docs/reference/lab-protocol.md).
    """

    default_exit_code = 2

    def __init__(
        self, value: str, rule: str, source: str = "", hint: str = "", exit_code: int | None = None, kind: str = ""
    ) -> None:
        super().__init__(value, rule, source, hint)
        self.value = value
        self.rule = rule
        self.source = source
        self.hint = hint
        self.exit_code = self.default_exit_code if exit_code is None else exit_code
        self.kind = kind

    def __str__(self) -> str:
        """Returns `VALUE: RULE (SOURCE). HINT`, leaving out what is empty."""
        text = f"{self.value}: {self.rule}"
        if self.source:
            text += f" ({self.source})"
        return f"{text}. {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.value, self.rule, self.source, self.hint, self.exit_code, self.kind))

    def amend(self, *, value: str | None = None, hint: str | None = None) -> HeadraceError:
        """Returns the same refusal, of the same class, with another value or hint."""
        refusal = copy.copy(self)
        refusal.value = self.value if value is None else value
        refusal.hint = self.hint if hint is None else hint
        return refusal


class InputError(HeadraceError):
    """A value that was typed or read breaks a rule. Exit code 2."""


class CouldNotRun(HeadraceError):
    """The input is fine, but the work could not be done here and now. Exit code 3."""

    default_exit_code = 3


class Refusals:
    """Makes the refusals of a module, whose rules all come from `source`: a page of the
    documentation or a section of it, a manual, a command's help.

    >>> refuse = Refusals("docs/guide/backups.md")
    >>> str(refuse.input("--keep 0", "keeps no backup", "Give 1 or more."))
    '--keep 0: keeps no backup (docs/guide/backups.md). Give 1 or more.'
    """

    def __init__(self, source: str) -> None:
        self.source = source

    def input(self, value: str, rule: str, hint: str = "", exit_code: int | None = None, kind: str = "") -> InputError:
        """Returns the refusal of what was typed or read; the caller raises it."""
        return InputError(value, rule, self.source, hint, exit_code, kind)

    def run(self, value: str, rule: str, hint: str = "", exit_code: int | None = None, kind: str = "") -> CouldNotRun:
        """Returns the refusal of work that could not be done here and now; the caller raises it."""
        return CouldNotRun(value, rule, self.source, hint, exit_code, kind)


def refuse_text(error: UnicodeEncodeError) -> InputError:
    """Returns the refusal of text with bytes that are not UTF-8. Python has such bytes of a command
    line as surrogates, which neither the core nor a file takes."""
    return InputError(repr(error.object)[:200], "is not text in UTF-8", "The Unicode Standard", "Type it anew.")
