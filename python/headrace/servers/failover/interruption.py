"""What an interrupted change has left, in words: who takes writes now, and what finishes it."""

from __future__ import annotations

from headrace.servers.failover.planning.election import follows, writers
from headrace.servers.failover.planning.members import Members

AGAIN = "Give the same command again to finish."


def words_after_change(seen: Members, source: str, unfinished: bool) -> str:
    """After a failover or switchover of `source`. `unfinished`: the journal has it as begun and not
    ended."""
    if not unfinished:
        return f"{_writing(seen)}. Nothing was changed."
    return " ".join([f"{_writing(seen)}{_not_following(seen, source)}.", AGAIN])


def words_after_rejoin(seen: Members, name: str, source: str, command: str = "") -> str:
    """After a rejoin of `name` below `source`. `command`: what makes it again where it is
    deleted."""
    if command:
        return f"{_writing(seen)}; {name} is deleted and not made again yet. This finishes it: {command}"
    one, above = seen.get(name), seen.get(source)
    if one is not None and above is not None and follows(one, above) is not None:
        return f"{_writing(seen)}; {name} follows {source}."
    return f"{_writing(seen)}; {name} does not follow {source} yet. {AGAIN}"


def _writing(seen: Members) -> str:
    """Who takes writes, in words."""
    names = writers(seen)
    if not names:
        return "Nobody takes writes"
    return f"{' and '.join(names)} {'takes' if len(names) == 1 else 'take'} writes"


def _not_following(seen: Members, source: str) -> str:
    """Who is to follow the new source and does not, in words; "" where all do, or where there is
    none."""
    names = [name for name in writers(seen) if name != source]
    if len(names) != 1:
        return ""
    new = seen[names[0]]
    apart = [
        name for name, one in sorted(seen.items()) if one.state is not None and one is not new and not follows(one, new)
    ]
    if not apart:
        return ""
    return f"; {' and '.join(apart)} {'does' if len(apart) == 1 else 'do'} not follow it yet"
