"""filters.csv against the models of EC2, and what a filter is held against."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.api.ec2.filters import read_filters, read_member
from headrace.api.protocol.shapes import ModelShape, get_service

# The filters of these calls stand in the reference alone; the model does not list them.
UNLISTED = ("DescribeFastSnapshotRestores",)


def structures(shape: ModelShape, seen: set[str]) -> Iterator[ModelShape]:
    """A shape and all below it that are structures, each once."""
    while shape.kind == "list":
        shape = shape.item.shape
    if shape.kind != "structure" or shape.name in seen:
        return
    seen.add(shape.name)
    yield shape
    for member in shape.members.values():
        yield from structures(member.shape, seen)


def leads_on(shape: ModelShape, steps: list[str]) -> bool:
    while shape.kind == "list":
        shape = shape.item.shape
    if not steps:
        return True
    return (
        shape.kind == "structure" and steps[0] in shape.members and leads_on(shape.members[steps[0]].shape, steps[1:])
    )


@pytest.mark.parametrize("name", sorted(read_filters()))
def test_each_filter_is_one_of_ec2_and_its_member_stands_in_the_answer(name):
    operation = get_service("ec2").operations[name]
    shapes = list(structures(operation.output, set()))
    for condition, steps in read_filters()[name].items():
        assert name in UNLISTED or condition in operation.filters, condition
        assert any(leads_on(shape, list(steps)) for shape in shapes), (condition, steps)


def test_a_member_of_a_list_is_that_of_each_element():
    machine = {"State": {"Code": 16}, "Disks": [{"Ebs": {"Id": "vol-1"}}, {"Ebs": {}}], "Types": ["a", "b"]}
    assert read_member(machine, ("State", "Code")) == 16
    assert read_member(machine, ("Disks", "Ebs", "Id")) == ["vol-1", None]
    assert read_member(machine, ("Types",)) == ["a", "b"]
    assert read_member(machine, ("Tags", "Key")) is None
