"""Policies: evaluation against a second, naive implementation on random ones; what is wrong with a document is pointed at."""

from __future__ import annotations

import fnmatch
import json
import random
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

from headrace.api.access.evaluation import IamVerdict, evaluate, lower_names
from headrace.api.access.policies import parse, read_policy
from headrace.errors import InputError

# Documents that are drawn; each is asked some ten questions.
POLICIES = 3_000


# The naive implementation: straight from the documents, one rule after the other.


def naive_like(pattern: str, value: str) -> bool:
    """`*` and `?` alone are special: fnmatch's brackets are taken away."""
    return fnmatch.fnmatchcase(value, pattern.replace("[", "[[]"))


def naive_arn(pattern: str, value: str) -> bool:
    words, other = pattern.split(":", 5), value.split(":", 5)
    return len(words) == 6 and len(other) == 6 and all(naive_like(a, b) for a, b in zip(words, other, strict=True))


def naive_test(operator: str, text: str, given: str) -> bool:
    if operator == "StringEquals":
        return text == given
    if operator == "StringEqualsIgnoreCase":
        return text.lower() == given.lower()
    if operator == "StringLike":
        return naive_like(text, given)
    if operator.startswith("Numeric"):
        try:
            a, b = float(given), float(text)
        except ValueError:
            return False
        return {
            "NumericEquals": a == b,
            "NumericLessThan": a < b,
            "NumericLessThanEquals": a <= b,
            "NumericGreaterThan": a > b,
            "NumericGreaterThanEquals": a >= b,
        }[operator]
    if operator.startswith("Date"):
        try:
            a, b = datetime.fromisoformat(given), datetime.fromisoformat(text)
        except ValueError:
            return False
        return {"DateEquals": a == b, "DateLessThan": a < b, "DateGreaterThan": a > b}[operator]
    if operator == "Bool":
        return text.lower() == given.lower()
    assert operator == "ArnLike"
    return naive_arn(text, given)


OPPOSITES = {
    "StringNotEquals": "StringEquals",
    "StringNotLike": "StringLike",
    "NumericNotEquals": "NumericEquals",
    "ArnNotLike": "ArnLike",
}


def naive_condition(text: str, key: str, values: list[str], context: dict[str, Any]) -> bool:
    result = next((value for name, value in context.items() if name.lower() == key.lower()), None)
    if text == "Null":
        return any((result is None) == (value == "true") for value in values)
    if text.endswith("IfExists"):
        if result is None:
            return True
        text = text[: -len("IfExists")]
    over, _, operator = text.rpartition(":")
    negative = operator in OPPOSITES
    operator = OPPOSITES.get(operator, operator)
    given = [] if result is None else [result] if isinstance(result, str) else list(result)
    hits = [any(naive_test(operator, expected, value) for expected in values) for value in given]
    if over == "ForAllValues":
        return not any(hits) if negative else all(hits)
    if over == "ForAnyValue":
        return any(not hit for hit in hits) if negative else any(hits)
    return not any(hits) if negative else any(hits)


def naive_applies(statement: dict, action: str, resource: str, context: dict) -> bool:
    def listed(name: str) -> list[str]:
        result = statement.get(name, [])
        return [result] if isinstance(result, str) else result

    def named(pattern: str) -> bool:
        return naive_like(pattern.lower(), action.lower())

    def met(pattern: str) -> bool:
        return pattern == "*" or naive_arn(pattern, resource)

    if "Action" in statement and not any(map(named, listed("Action"))):
        return False
    if "NotAction" in statement and any(map(named, listed("NotAction"))):
        return False
    if "Resource" in statement and not any(map(met, listed("Resource"))):
        return False
    if "NotResource" in statement and any(map(met, listed("NotResource"))):
        return False
    return all(
        naive_condition(operator, key, [values] if isinstance(values, str) else values, context)
        for operator, block in statement.get("Condition", {}).items()
        for key, values in block.items()
    )


def naive(documents: list[dict], action: str, resource: str, context: dict) -> IamVerdict:
    statements = [entry for document in documents for entry in document["Statement"]]
    effects = {statement["Effect"] for statement in statements if naive_applies(statement, action, resource, context)}
    if "Deny" in effects:
        return IamVerdict.DENIED
    return IamVerdict.ALLOWED if "Allow" in effects else IamVerdict.NOT_ALLOWED


# Random documents out of few words, so that they meet.

ACTIONS = ["ec2:CreateVolume", "ec2:DeleteVolume", "ec2:DescribeVolumes", "kms:Decrypt"]
ACTION_PATTERNS = [*ACTIONS, "*", "ec2:*", "EC2:create*", "ec2:De?eteVolume", "kms:*", "ec2:*Volumes"]
RESOURCES = ["*", "arn:aws:ec2:us-east-1:000000000000:volume/vol-1", "arn:aws:ec2:us-east-1:000000000000:instance/i-1"]
RESOURCE_PATTERNS = [*RESOURCES, "arn:aws:ec2:*:*:volume/*", "arn:aws:ec2:*:*:*", "arn:aws:ec2:us-*:*:instance/i-?"]
KEYS = ["aws:RequestTag/owner", "aws:TagKeys", "ec2:Encrypted", "ec2:VolumeSize", "aws:CurrentTime", "aws:Arn"]
VALUES = {
    "aws:RequestTag/owner": ["ann", "bob", "Ann", "a*", "?nn", "[x]", "*"],
    "aws:TagKeys": ["owner", "team", "o*", "x"],
    "ec2:Encrypted": ["true", "false"],
    "ec2:VolumeSize": ["5", "100", "5.0", "16384"],
    "aws:CurrentTime": ["2026-01-01T00:00:00+00:00", "2026-06-01T00:00:00+00:00"],
    "aws:Arn": ["arn:aws:iam::000000000000:user/ann", "arn:aws:iam::*:user/*", "arn:aws:iam::000000000000:root"],
}
OPERATORS = {
    "aws:RequestTag/owner": [
        "StringEquals",
        "StringNotEquals",
        "StringLike",
        "StringNotLike",
        "StringEqualsIgnoreCase",
    ],
    "aws:TagKeys": ["StringEquals", "StringLike", "StringNotEquals"],
    "ec2:Encrypted": ["Bool"],
    "ec2:VolumeSize": [
        "NumericEquals",
        "NumericNotEquals",
        "NumericLessThan",
        "NumericGreaterThanEquals",
        "NumericLessThanEquals",
        "NumericGreaterThan",
    ],
    "aws:CurrentTime": ["DateEquals", "DateLessThan", "DateGreaterThan"],
    "aws:Arn": ["ArnLike", "ArnNotLike"],
}


def some(chance: random.Random, words: list[str]) -> str | list[str]:
    result = chance.sample(words, chance.randint(1, min(3, len(words))))
    return result[0] if len(result) == 1 and chance.random() < 0.5 else result


def random_condition(chance: random.Random) -> dict:
    block: dict[str, dict] = {}
    for _ in range(chance.randint(0, 2)):
        key = chance.choice(KEYS)
        if chance.random() < 0.15:
            operator, values = "Null", chance.choice(["true", "false"])
        else:
            operator, values = chance.choice(OPERATORS[key]), some(chance, VALUES[key])
            if key == "aws:TagKeys" or chance.random() < 0.1:
                operator = chance.choice(["ForAllValues:", "ForAnyValue:", ""]) + operator
            if chance.random() < 0.2:
                operator += "IfExists"
        block.setdefault(operator, {})[chance.choice([key, key.upper()]) if "/" not in key else key] = values
    return {"Condition": block} if block else {}


def random_document(chance: random.Random) -> dict:
    def statement() -> dict:
        return {
            "Effect": chance.choice(["Allow", "Allow", "Deny"]),
            chance.choice(["Action", "Action", "Action", "NotAction"]): some(chance, ACTION_PATTERNS),
            chance.choice(["Resource", "Resource", "Resource", "NotResource"]): some(chance, RESOURCE_PATTERNS),
            **random_condition(chance),
        }

    return {"Version": "2012-10-17", "Statement": [statement() for _ in range(chance.randint(1, 4))]}


def random_context(chance: random.Random) -> dict[str, Any]:
    choices: dict[str, Any] = {}
    for key in KEYS:
        if chance.random() < 0.6:
            choices[key] = chance.choice(VALUES[key])
    if "aws:TagKeys" in choices:
        choices["aws:TagKeys"] = chance.sample(VALUES["aws:TagKeys"], chance.randint(0, 3))
    return choices


def test_evaluation_is_that_of_the_naive_implementation():
    chance = random.Random(11)
    met = dict.fromkeys(IamVerdict, 0)
    for _ in range(POLICIES):
        documents = [random_document(chance) for _ in range(chance.randint(1, 3))]
        policies = [read_policy(json.dumps(document), "p.json") for document in documents]
        for _ in range(10):
            action, resource, context = chance.choice(ACTIONS), chance.choice(RESOURCES), random_context(chance)
            expected = naive(documents, action, resource, context)
            assert evaluate(policies, action, resource, lower_names(context)) is expected, (
                documents,
                action,
                resource,
                context,
            )
            met[expected] += 1
    # Each outcome was met often: no more than three in four questions had the same.
    assert min(met.values()) > POLICIES / 2 and max(met.values()) < 0.75 * 10 * POLICIES


def allowed(document: dict, context: dict[str, Any], resource: str = "*") -> bool:
    policy = read_policy(json.dumps(document), "p.json")
    return evaluate([policy], "ec2:CreateVolume", resource, lower_names(context)) is IamVerdict.ALLOWED


def statement(**more: Any) -> dict:
    entry = {"Effect": "Allow", "Action": "ec2:*", "Resource": "*", **more}
    return {"Version": "2012-10-17", "Statement": entry}


def test_variables_stand_for_what_the_request_has():
    mine = statement(Condition={"StringEquals": {"aws:RequestTag/owner": "${aws:username}"}})
    assert allowed(mine, {"aws:RequestTag/owner": "ann", "aws:username": "ann"})
    assert not allowed(mine, {"aws:RequestTag/owner": "bob", "aws:username": "ann"})
    assert not allowed(mine, {"aws:RequestTag/owner": "ann"}), "a variable that stands for nothing matches nothing"
    old = {**mine, "Version": "2008-10-17"}
    assert not allowed(old, {"aws:RequestTag/owner": "ann", "aws:username": "ann"}), "2008 had no variables"
    arn = "arn:aws:ec2:us-east-1:000000000000:volume/ann"
    own = statement(Resource="arn:aws:ec2:*:*:volume/${aws:username}")
    assert allowed(own, {"aws:username": "ann"}, arn) and not allowed(own, {"aws:username": "bob"}, arn)


def test_what_a_variable_stands_for_is_literal():
    """IAM guide, "Policy variables": `${*}`, `${?}` and `${$}` stand for these characters; nor is a
    value of the request a pattern.
    """

    def liked(pattern: str, value: str, operator: str = "StringLike") -> bool:
        return allowed(
            statement(Condition={operator: {"aws:RequestTag/name": pattern}}),
            {"aws:RequestTag/name": value, "aws:username": "a*", "ec2:Owner": "x:y"},
        )

    for pattern, met, missed in (
        ("${*}", "*", "x"),
        ("${?}", "?", "x"),
        ("${$}", "$", "x"),
        ("a${*}*", "a*bc", "abc"),
        ("${?}?", "?z", "zz"),
        ("${$}{*}", "${x}", "${*"),
        ("${aws:username}", "a*", "ab"),
        ("${aws:nothing, '*'}", "*", "x"),
    ):
        assert liked(pattern, met) and not liked(pattern, missed), pattern
    assert liked("${*}", "*", "StringEquals") and liked("A${?}", "a?", "StringEqualsIgnoreCase")
    assert liked("${ec2:Owner}", "x:y", "StringEquals") and not liked("${*}", "*", "StringNotEquals")
    own = statement(Resource="arn:aws:ec2:*:*:volume/${aws:username}")
    any_volume = "arn:aws:ec2:us-east-1:000000000000:volume/vol-1"
    assert not allowed(own, {"aws:username": "*"}, any_volume), "a name is no way to everything"
    assert not allowed(own, {"aws:username": "vol-?"}, any_volume)
    shifted = statement(Resource="arn:aws:ec2:${aws:username}:*:volume/*")
    assert not allowed(shifted, {"aws:username": "us-east-1:000000000000"}, any_volume)


GOOD = '{\n  "Version": "2012-10-17",\n  "Statement": [\n    {"Effect": "Allow", "Action": "ec2:*", "Resource": "*"}\n  ]\n}'


@pytest.mark.parametrize(
    ("text", "place", "rule"),
    [
        ("", "1:1", "a value is expected"),
        ("[]", "1:1", "a policy is an object"),
        ("{}", "1:1", "has a Statement"),
        (GOOD[:-1], "6:1", "a comma or }"),
        (GOOD + "x", "6:2", "ends before this"),
        (GOOD.replace("2012-10-17", "2013"), "2:14", "Version is 2012-10-17"),
        (GOOD.replace('"Allow"', '"allow"'), "4:16", "which is Allow or Deny"),
        (GOOD.replace("ec2:*", "ec2"), "4:35", "SERVICE:ACTION"),
        (GOOD.replace('"Resource": "*"', '"Resource": "vol-1"'), "4:56", "an ARN"),
        (GOOD.replace('"Action"', '"Actions"'), "4:25", "has no 'Actions'"),
        (GOOD.replace('"Action": "ec2:*", ', ""), "4:5", "either Action or NotAction"),
        (GOOD.replace('"Resource"', '"NotAction": "x:y", "Resource"'), "4:57", "either Action or NotAction"),
        (GOOD.replace('"Effect"', '"Effect": "Deny", "Effect"'), "4:24", "is there twice"),
        (GOOD.replace('"*"}', '"*", "Principal": "*"}'), "4:61", "has no 'Principal'"),
        (GOOD.replace('"*"}', '"*", "Condition": {"StringIs": {"a:b": "c"}}}'), "4:75", "not an operator"),
        (GOOD.replace('"*"}', '"*", "Condition": {"Bool": {"a:b": "maybe"}}}'), "4:91", "true or false"),
        (GOOD.replace('"*"}', '"*", "Condition": {"NumericEquals": {"a:b": "x"}}}'), "4:100", "a number"),
        (GOOD.replace('"*"}', '"*", "Condition": {"Null": {}}}'), "4:83", "is empty"),
        (GOOD.replace('"*"}', '"*", "Condition": {"Bool": {"owner": "true"}}}'), "4:84", "not a condition key"),
        ('{"Statement": [' + "[" * 100, "1:47", "at most 32 levels"),
        ('{"Statement": "\\x"}', "1:16", "not a JSON text"),
        (GOOD + " " * 7000, "1:1", "at most 6,144 characters"),
    ],
)
def test_what_is_wrong_is_named_with_line_and_column(text, place, rule):
    with pytest.raises(InputError) as raised:
        read_policy(text, "team.json")
    assert raised.value.value == f"team.json:{place}" and rule in raised.value.rule, raised.value


def plain(node: Any) -> Any:
    if node.is_object:
        return {key.value: plain(value) for key, value in node.value}
    return [plain(entry) for entry in node.value] if isinstance(node.value, list) else node.value


def test_positions_reads_json_as_json_does():
    chance = random.Random(5)
    for _ in range(300):
        document = random_document(chance) | {"numbers": [0, -1, 2.5, 1e9], "words": [True, False, None, 'é\n"\\']}
        for indent in (None, 2):
            text = json.dumps(document, indent=indent)
            assert plain(parse(text)) == document


def test_the_examples_are_policies():
    files = sorted((ROOT / "examples/policies").glob("*.json"))
    assert files
    for path in files:
        read_policy(path.read_text(), path.name)


def owned_context(**more: str) -> dict[str, str]:
    return {"ec2:Encrypted": "true", "aws:RequestTag/owner": "ann", "aws:TagKeys": ["owner"], **more}  # type: ignore[dict-item]


def test_no_volume_without_encryption_and_an_owner():
    """The example: an unencrypted volume and one without an owner are refused, all else of volumes is allowed."""
    policy = read_policy(Path(ROOT / "examples/policies/encrypted-and-owned.json").read_text(), "e.json")
    volume = "arn:aws:ec2:us-east-1:000000000000:volume/*"

    def verdict(context: dict) -> IamVerdict:
        return evaluate([policy], "ec2:CreateVolume", volume, lower_names(context))

    assert verdict(owned_context()) is IamVerdict.ALLOWED
    assert verdict(owned_context(**{"ec2:Encrypted": "false"})) is IamVerdict.DENIED
    without = owned_context()
    del without["aws:RequestTag/owner"]
    assert verdict(without) is IamVerdict.DENIED
