"""A password that does not show itself."""

from __future__ import annotations

import hmac


class Secret:
    """Wraps a password: `repr` and `str` are `***`, and it is not pickled or turned into JSON by accident. `reveal()` gives it away."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The password itself: for the moment of use only."""
        return self._value

    def __repr__(self) -> str:
        return "***"

    def __format__(self, form: str) -> str:
        return format("***", form)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: dict) -> Secret:
        return self

    def __reduce__(self):
        raise TypeError("a password is not pickled")
