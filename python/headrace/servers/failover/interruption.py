"""Describes the state after an interrupted change: which server takes writes, and what finishes
it."""

from __future__ import annotations

from headrace.servers.failover.planning.election import find_channel, list_writers
from headrace.servers.failover.planning.members import Members

AGAIN = "Give the same command again to finish."


def describe_change(seen: Members, source: str, unfinished: bool) -> str:
    """Describes the state after an interrupted change of `source`. `unfinished`: by the journal it
    began and did not end; else nothing was changed."""
    if not unfinished:
        return f"{_describe_writers(seen)}. Nothing was changed."
    return " ".join([f"{_describe_writers(seen)}{_describe_stragglers(seen, source)}.", AGAIN])


def describe_rejoin(seen: Members, name: str, source: str, state: str = "") -> str:
    """Describes the state after a rejoin. `state`: the server's, and what finishes it where the
    same command does not, in words."""
    if state:
        return f"{_describe_writers(seen)}; {name} {state}"
    member, above = seen.get(name), seen.get(source)
    if member is not None and above is not None and find_channel(member, above) is not None:
        return f"{_describe_writers(seen)}; {name} follows {source}."
    return f"{_describe_writers(seen)}; {name} does not follow {source} yet. {AGAIN}"


def _describe_writers(seen: Members) -> str:
    """Returns which servers take writes, in words."""
    names = list_writers(seen)
    if not names:
        return "Nobody takes writes"
    return f"{' and '.join(names)} {'takes' if len(names) == 1 else 'take'} writes"


def _describe_stragglers(seen: Members, source: str) -> str:
    """Returns, in words, servers that do not follow the new source; "" for none, or no source."""
    names = [name for name in list_writers(seen) if name != source]
    if len(names) != 1:
        return ""
    new = seen[names[0]]
    others = [seen[name] for name in sorted(seen) if seen[name].state is not None and seen[name] is not new]
    apart = [member.name for member in others if not find_channel(member, new)]
    if not apart:
        return ""
    return f"; {' and '.join(apart)} {'does' if len(apart) == 1 else 'do'} not follow it yet"
