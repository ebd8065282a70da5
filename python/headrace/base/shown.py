"""How results look in Python: `repr` is one short line, a notebook shows a compact table and a
chart."""

from __future__ import annotations

from importlib import import_module


class Shown:
    """A result. A subclass says in `in_short` what stands between the parentheses of its `repr`."""

    def in_short(self) -> str:
        """What this is, in a few words."""
        raise NotImplementedError(type(self).__name__)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_short()})"

    def _repr_html_(self) -> str:
        # Results know nothing of how they are drawn: reports read results, so they are asked
        # through the facade.
        return import_module("headrace").report_html(self)
