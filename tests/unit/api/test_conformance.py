"""Every parameter of every served call is handled or refused by name, and the page that says so is current."""

from __future__ import annotations

import importlib.util
import re

import pytest
from places import ROOT

from headrace.api import handling
from headrace.api.errors import AwsError
from headrace.api.handling import Served, list_unnamed
from headrace.api.protocol.shapes import SERVICES, get_service

HANDLERS = handling.load()
EVERY = [(name, operation) for name in SERVICES for operation in get_service(name).operations]


@pytest.mark.parametrize(("name", "operation"), EVERY)
def test_every_parameter_is_handled_or_refused(name, operation):
    assert (name, operation) in HANDLERS, "no handler is there"
    assert list_unnamed(HANDLERS[name, operation]) == set()


def source_of(served: Served) -> str:
    """All text of the package a handler may read its parameters in: its own module and its neighbours."""
    folder = ROOT / "python/headrace/api" / served.service.name
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    return "\n".join(path.read_text() for path in files) + (ROOT / "python/headrace/api/handling.py").read_text()


# Calls whose members are handed on as they are, all together, and the structure that reads them in the daemon.
HANDED_ON = {
    ("cloudwatch", "PutMetricAlarm"): ("crates/cloudwatch/src/alarm.rs", "AlarmSpec"),
    ("cloudwatch", "DescribeAlarmsForMetric"): ("crates/daemon/src/cloudwatch/calls.rs", "AlarmsForMetric"),
}


def members_of(file: str, name: str) -> set[str]:
    """The API's names of the fields of a Rust structure, which refuses what it has no field for."""
    text = (ROOT / file).read_text()
    match = re.search(rf"#\[serde\(([^\n]*)\)\]\n(?:#[^\n]*\n)*(?:pub )?struct {name} \{{(.*?)\n\}}", text, re.DOTALL)
    assert match, f"{name} is not in {file}"
    assert "PascalCase" in match[1] and "deny_unknown_fields" in match[1]
    fields = re.findall(r'(?:rename = "(\w+)"\)\]\n\s*)?(?:pub )?(\w+): ', match[2])
    return {other or "".join(word.capitalize() for word in field.split("_")) for other, field in fields}


@pytest.mark.parametrize(("name", "operation"), list(HANDLERS))
def test_a_handled_parameter_is_read_somewhere(name, operation):
    """A parameter that is named as handled and never read would be ignored in silence."""
    served = HANDLERS[name, operation]
    text = source_of(served) + (ROOT / "python/headrace/api/paging.py").read_text()
    declared = {entry.source for entry in handling.read_entries("arguments.csv").get((name, operation), ())}
    never = {path for path in served.handled - declared if f'"{path.rpartition(".")[2]}"' not in text}
    if (name, operation) in HANDED_ON:
        never -= members_of(*HANDED_ON[name, operation])
    assert not never


@pytest.mark.parametrize(
    ("name", "operation"), [key for key, served in HANDLERS.items() for path in served.refused if "." not in path]
)
def test_a_refused_parameter_is_refused_with_its_reason(name, operation):
    served = HANDLERS[name, operation]
    for path, why in served.refused.items():
        value: object = "x"
        for step in reversed(path.split(".")[1:]):
            value = {step: value}
        with pytest.raises(AwsError) as raised:
            served.refuse({path.partition(".")[0]: value})
        assert path in raised.value.message and why in raised.value.message


def _page():
    spec = importlib.util.spec_from_file_location("aws_api_page", ROOT / "packaging/aws_api_page.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current():
    """Make it again: python packaging/aws_api_page.py docs/reference/aws-api.md (make generate)."""
    assert (ROOT / "docs/reference/aws-api.md").read_text() == _page().page()


def test_every_parameter_and_error_is_shown_by_a_test():
    page, unshown = _page(), []
    for served in HANDLERS.values():
        name = served.operation.name
        unshown += [(name, member) for member in sorted(served.operation.input.members)
                    if member in served.handled and not page.shown_by(name, member)]  # fmt: skip
        unshown += [(name, code) for code, test in page.errors_of(served).items() if not test]
    assert unshown == [], "use the parameter, or expect the error, in a test of tests/api"
