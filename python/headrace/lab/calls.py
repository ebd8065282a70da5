"""Every call of headraced as a method, made from the table of calls in calls.json.

Their types and words are in calls.pyi. `make generate` writes both from crates/protocol: edit
there. Answers are plain dicts, as JSON has them.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from typing import Any, TypedDict

from headrace.base.packaged import read_text

# Attach measures the machine's path first; detach, delete and down write back and free what a
# volume holds. Three minutes are a guess at the slowest disk.
LONG_CALL_S = 180.0


class Calls(ABC):
    """The calls of the socket protocol (docs/reference/lab-protocol.md); calls.pyi lists them.

    A volume is named by its id or its unique name. An argument that is None is left out.
    """

    timeout_s: float  # the longest wait for an answer

    @abstractmethod
    def call(self, name: str, timeout_s: float | None = None, /, **args: object) -> Any:
        """Makes a call and returns its answer."""


def _signature_of(entry: Mapping[str, Any]) -> Signature:
    """Returns the signature of a method: which arguments it takes, and their defaults."""
    parameters = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)]
    for place, (name, *default) in enumerate(entry["parameters"]):
        kind = Parameter.POSITIONAL_OR_KEYWORD if place < entry["by_place"] else Parameter.KEYWORD_ONLY
        parameters.append(Parameter(name, kind, default=default[0] if default else Parameter.empty))
    return Signature(parameters)


def _make_method(entry: Mapping[str, Any]) -> Callable[..., object]:
    """Makes the method of a call."""
    signature = _signature_of(entry)

    def method(self: Calls, *given: object, **named: object) -> object:
        bound = signature.bind(self, *given, **named)
        bound.apply_defaults()
        arguments = {name: value for name, value in bound.arguments.items() if name != "self"}
        wait_s = max(self.timeout_s, LONG_CALL_S) if entry["long"] else None
        answer = self.call(entry["call"], wait_s, **arguments)
        return answer[entry["returns"]] if entry["returns"] else answer

    method.__name__, method.__qualname__ = entry["method"], f"Calls.{entry['method']}"
    method.__doc__ = entry["doc"]
    method.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
    return method


_TABLE = json.loads(read_text("headrace.lab", "calls.json"))
globals().update({name: TypedDict(name, dict.fromkeys(keys, object)) for name, keys in _TABLE["answers"].items()})  # pyright: ignore[reportArgumentType]
for _entry in _TABLE["calls"]:
    setattr(Calls, _entry["method"], _make_method(_entry))
