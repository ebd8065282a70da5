"""Random values of the shapes of the served models, for the protocols' tests."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cache
from typing import Any

from botocore.model import ServiceModel as Botocore
from botocore.session import get_session
from hypothesis import strategies as st

from headrace.api.protocol.shapes import SERVICES, ModelShape, get_service

# Text that XML can carry and forms can; what is special in each of them is drawn often.
TEXT = st.text(
    st.one_of(
        st.sampled_from("&<>\"'\r\n\t %+=;,.?*/\\aZ0-_é日\U0001f600"),
        st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff"),
    ),
    max_size=12,
)
# In whole milliseconds, as EC2 writes times.
MOMENTS = st.integers(0, 4_102_444_800_000).map(lambda ms: datetime.fromtimestamp(ms / 1000, UTC))


@cache
def botocore_model(name: str) -> Botocore:
    """botocore's own, whole model of a service."""
    return Botocore(get_session().get_component("data_loader").load_service_model(name, "service-2"))


def every_operation() -> list[tuple[str, str, str]]:
    """(service, operation, protocol) of everything that is served."""
    return [
        (name, operation, protocol)
        for name in SERVICES
        for operation in get_service(name).operations
        for protocol in get_service(name).protocols
    ]


def _bounded(shape: ModelShape, least: int = 0, most: int = 4) -> dict[str, int]:
    low = max(least, int(shape.facts.get("min", least)))
    return {"min_size": low, "max_size": max(low, min(int(shape.facts.get("max", most)), most))}


def _scalar(shape: ModelShape) -> st.SearchStrategy:
    facts, kind = shape.facts, shape.kind
    if "enum" in facts:
        return st.sampled_from(facts["enum"])
    if kind == "string" and "pattern" in facts:
        low, high = facts.get("min", 0), facts.get("max", 1 << 30)
        texts = st.from_regex(re.compile(facts["pattern"], re.ASCII), fullmatch=True)
        return texts.filter(lambda text: low <= len(text) <= high and text.isprintable())
    if kind == "string":
        return TEXT.map(lambda text: text.ljust(facts.get("min", 0), "x")[: facts.get("max", 1 << 30)])
    if kind in ("integer", "long"):
        bits = 31 if kind == "integer" else 63
        return st.integers(facts.get("min", -(1 << bits)), facts.get("max", (1 << bits) - 1))
    if kind in ("double", "float"):
        return st.floats(facts.get("min"), facts.get("max"), allow_nan=False, allow_infinity=False, width=32)
    size = _bounded(shape, 0, 64)
    return {"boolean": st.booleans(), "timestamp": MOMENTS, "blob": st.binary(**size)}[kind]


def values(shape: ModelShape, full: bool = False, depth: int = 0) -> st.SearchStrategy[Any]:
    """Values of a shape, within what the model bounds. `full`: required lists and structures are not
    empty, because a form cannot say that of them.
    """
    if shape.kind == "structure":
        members = {name: member.shape for name, member in shape.members.items()}
        if shape.facts.get("union"):
            return st.one_of(
                [st.fixed_dictionaries({name: values(shape, full, depth + 1)}) for name, shape in members.items()]
            )
        needed = {name: values(members[name], full, depth + 1) for name in shape.required}
        if full:
            needed = {
                name: strategy.filter(lambda value: bare(value) not in ({}, [])) for name, strategy in needed.items()
            }
        if depth > 5:
            return st.fixed_dictionaries(needed)
        optional = {
            name: st.deferred(lambda shape=shape: values(shape, full, depth + 1))
            for name, shape in members.items()
            if name not in needed
        }
        return st.fixed_dictionaries(needed, optional=optional)
    if shape.kind == "list":
        inner = st.deferred(lambda: values(shape.item.shape, full, depth + 1))
        return st.lists(inner, **_bounded(shape, int(full and depth > 0), 2))
    if shape.kind == "map":
        return st.dictionaries(values(shape.key.shape), values(shape.value.shape), **_bounded(shape, 0, 2))
    return _scalar(shape)


def bare(value: Any) -> Any:
    """Without what is empty: forms cannot tell an empty list from none."""
    if isinstance(value, dict):
        members = {key: bare(below) for key, below in value.items()}
        return {key: below for key, below in members.items() if below not in ({}, [], None)}
    if isinstance(value, list):
        return [below for below in map(bare, value) if below not in ({}, [])]
    return value
