"""Values of settings as servers and option files write them: 193G, 1, ON, O_DIRECT."""

from __future__ import annotations

from headrace.base.options import FALSE, TRUE, UNITS, as_bytes


def as_number(text: str | None) -> float | None:
    """Returns the number in a value, of a size its bytes; None for other text."""
    size = as_bytes(text)
    if size is not None:
        return size
    try:
        return float(text or "")
    except ValueError:
        return None


def is_on(text: str | None) -> bool:
    """Returns whether a switch is on, as it is without a value."""
    return (text or "1").strip().lower() in TRUE


def format_size(bytes_: float) -> str:
    """Returns bytes with the largest unit that loses nothing: 25769803776 is 24G."""
    whole = int(bytes_)
    for unit in ("t", "g", "m", "k"):
        if whole and whole % UNITS[unit] == 0:
            return f"{whole // UNITS[unit]}{unit.upper()}"
    return str(whole)


def format_setting(kind: str, value: str | None) -> str | None:
    """Returns a value of that kind in an option file's words: bytes get their unit."""
    size = as_bytes(value) if kind == "bytes" else None
    return value if size is None else format_size(size)


def are_same(kind: str, first: str, second: str) -> bool:
    """Returns whether two values of a parameter of that kind (table.KINDS) mean the same."""
    if kind == "switch":
        return _normalise_switch(first) == _normalise_switch(second)
    if kind in ("bytes", "count"):
        first_number, second_number = as_number(first), as_number(second)
        if first_number is not None and second_number is not None:
            return first_number == second_number
        return first.strip().lower() == second.strip().lower()
    if kind == "path":
        return first.rstrip("/") == second.rstrip("/")
    if kind == "text":
        return _split_options(first) == _split_options(second)
    return first.strip().lower().replace("_", "-") == second.strip().lower().replace("_", "-")


def _normalise_switch(text: str) -> str:
    """Returns "on" or "off" for the words of a switch; another word as it is, in lower case."""
    word = text.strip().lower()
    return "on" if word in (*TRUE, "") else "off" if word in FALSE else word


def _split_options(text: str) -> frozenset[str]:
    """Returns RocksDB's options: a list whose order does not matter."""
    return frozenset(part.strip().lower() for part in text.split(";") if part.strip())
