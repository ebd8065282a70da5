"""A plan that was written as JSON is read as the plan it was; what is damaged, foreign or newer is refused by name."""

from __future__ import annotations

import json

import pytest
from planner_cases import NO_ARRAYS, shop, steady

from headrace.errors import InputError
from headrace.planner import Plan, plan
from headrace.planner.planning import read_plan, restore_plan
from headrace.report.plan import build_plan_view

QUICK = {"instances": ["r7g.2xlarge"], "draws": 4}


@pytest.fixture(scope="module")
def demand() -> Plan:
    return plan(steady(), compare="gp2:1000", exclude=NO_ARRAYS)


def written(answer: Plan) -> dict:
    return json.loads(json.dumps(answer.to_dict()))


def check_read(answer: Plan) -> None:
    read = restore_plan(written(answer), "plan.json")
    assert read.to_dict() == answer.to_dict()
    assert repr(build_plan_view(read, charts=False)) == repr(build_plan_view(answer, charts=False))


def test_a_plan_for_demand_is_read_as_it_was(demand):
    check_read(demand)


def test_a_plan_that_nothing_meets_is_read_as_it_was():
    check_read(plan(steady(), goals=["p99_ms<=0.01"], exclude=NO_ARRAYS))


def test_a_plan_for_a_database_on_services_is_read_as_it_was():
    check_read(plan(shop(), goals=["tps>=300"], on="ec2,rds,aurora", size_gib=100, free_percent=0, **QUICK))


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"schema": "headrace-plan/4"}, "newer Headrace"),
        ({"schema": "headrace-plan/999999999999"}, "newer Headrace"),
        ({"schema": "headrace-plan/2"}, "another form"),
        ({"schema": "headrace-plan/<img>"}, "another form"),
        ({"schema": "headrace-proof/1"}, "is not a plan"),
        ({"subject": "weather"}, "is damaged: subject"),
        ({"goals": ["p99_ms<=x"]}, "goal"),
        ({"goals": None}, "is damaged: .*goals"),
        ({"choices": {"winners": [{"storage": 3}]}}, r"is damaged: .*\$\.choices\.winners"),
        ({"choices": {"frontier": [[1]]}}, r"is damaged: .*\$\.choices\.frontier"),
        ({"choices": {"frontier": [{"a": {}}]}}, r"is damaged: .*\$\.choices\.frontier"),
        ({"load": {"size_gib": "much"}}, r"is damaged: .*\$\.load\.size_gib"),
    ],
)
def test_what_is_no_plan_of_this_version_is_refused(demand, change, rule):
    document = written(demand)
    parts = {key: document[key] | part if isinstance(part, dict) else part for key, part in change.items()}
    with pytest.raises(InputError, match=rule):
        restore_plan(document | parts, "plan.json")


def test_each_part_that_is_missing_is_named(demand):
    document = written(demand)
    parts = [document, *(document[name] for name in ("choices", "load", "search", "doubts", "steps"))]
    for part in parts:
        # Why nothing comes close is said by plans of today only.
        for name in [name for name in part if name not in ("schema", "why_nothing")]:
            value = part.pop(name)
            with pytest.raises(InputError, match=rf"is damaged: .*\b{name}\b"):
                restore_plan(document, "plan.json")
            part[name] = value


@pytest.mark.parametrize("document", [None, [], 3, "plan", {}, {"schema": 2}])
def test_what_is_something_else_is_no_plan(document):
    with pytest.raises(InputError, match="is not a plan"):
        restore_plan(document, "plan.json")


def test_a_file_is_read_as_the_plan_it_was(demand, tmp_path):
    (tmp_path / "plan.json").write_text(json.dumps(demand.to_dict()))
    read = read_plan(str(tmp_path / "plan.json"))
    assert read is not None and read.to_dict() == demand.to_dict()
    (tmp_path / "shop.toml").write_text("kind = 'database'")
    assert read_plan(str(tmp_path / "shop.toml")) is None


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": "headrace-plan/1"}', "\xff"])
def test_a_file_of_json_that_is_no_plan_is_refused(text, tmp_path):
    (tmp_path / "plan.json").write_text(text, encoding="latin-1")
    with pytest.raises(InputError):
        read_plan(str(tmp_path / "plan.json"))
