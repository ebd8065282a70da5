"""The stub of the compiled module says what the module does: names, parameters, and the shape of the answers."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import headrace
from headrace import _core as core

STUB = Path(headrace.__file__).parent / "_core.pyi"
TREE = ast.parse(STUB.read_text())
PLAIN = {"str": str, "int": int, "float": (float, int), "bool": bool, "None": type(None), "object": object}
GIB = 1024**3
LOAD = {
    "kind": "open",
    "duration_s": [60.0, 60.0],
    "reads_per_s": [900.0, 10.0],
    "writes_per_s": [100.0, 10.0],
    "read_bytes": [16_384.0, 16_384.0],
    "write_bytes": [16_384.0, 16_384.0],
    "sequential_read_share": 0.0,
    "sequential_write_share": 0.0,
    "arrivals": "poisson",
    "max_outstanding": 64,
    "span_bytes": GIB,
}
RUN = {
    "storage": "gp2:100",
    "log_storage": None,
    "instance": "m5.large",
    "as_of": None,
    "cache_bytes": 1e9,
    "clients": 4,
    "arrivals": None,
    "start": "warm",
    "seconds": 5,
    "step_s": 1.0,
    "seed": 1,
    "start_balance_percent": None,
    "follow": None,
}
INNODB = core.mysql_tpcc("innodb", 10.0)
SERVICE_RUN = {
    "deployment": "aurora:standard",
    "storage": None,
    "instance": "r6g.large",
    "as_of": None,
    "cache_bytes": 1e9,
    "clients": 4,
    "arrivals": None,
    "start": "warm",
    "seconds": 5,
    "step_s": 1.0,
    "seed": 1,
    "aurora": None,
}


def fields_of(node: ast.ClassDef | ast.Call) -> dict[str, ast.expr]:
    """Keys and annotations of a TypedDict, in either way of writing one."""
    if isinstance(node, ast.ClassDef):
        return {ast.unparse(item.target): item.annotation for item in node.body if isinstance(item, ast.AnnAssign)}
    fields = node.args[1]
    assert isinstance(fields, ast.Dict)
    return {ast.literal_eval(key): value for key, value in zip(fields.keys, fields.values, strict=True)}


def typed_dicts() -> dict[str, dict[str, ast.expr]]:
    """Every TypedDict of the stub, what it inherits included."""
    classes: dict[str, dict[str, ast.expr]] = {}
    for node in TREE.body:
        if isinstance(node, ast.ClassDef):
            bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
            if "TypedDict" in bases or set(bases) & set(classes):
                classes[node.name] = {
                    key: value for base in bases for key, value in classes.get(base, {}).items()
                } | fields_of(node)
        elif (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Call)
            and ast.unparse(node.value.func) == "TypedDict"
        ):
            classes[ast.unparse(node.targets[0])] = fields_of(node.value)
    return classes


TYPES = typed_dicts()


def wrong(value: object, annotation: ast.expr, place: str) -> list[str]:
    """Returns the place at which a value is not what an annotation says; "" for none."""
    if isinstance(annotation, ast.BinOp):
        sides = [side for side in ast.iter_child_nodes(annotation) if isinstance(side, ast.expr)]
        fits = any(not wrong(value, side, place) for side in sides)
        return [] if fits else [f"{place}: {value!r} is no {ast.unparse(annotation)}"]
    if isinstance(annotation, ast.Subscript):
        of = ast.unparse(annotation.value)
        if of == "NotRequired":
            return wrong(value, annotation.slice, place)
        if of == "dict":
            return [] if isinstance(value, dict) else [f"{place} is no dict"]
        if of == "tuple":
            assert isinstance(annotation.slice, ast.Tuple)
            kinds = annotation.slice.elts
            fits = isinstance(value, tuple) and len(value) == len(kinds)
            return (
                [text for item, kind in zip(value, kinds, strict=True) for text in wrong(item, kind, place)]
                if fits
                else [f"{place} is no tuple"]
            )
        if not isinstance(value, list if of == "list" else (list, tuple)):
            return [f"{place} is no {of}"]
        return [
            text for index, item in enumerate(value[:50]) for text in wrong(item, annotation.slice, f"{place}[{index}]")
        ]
    name = ast.unparse(annotation)
    if name in TYPES:
        if not isinstance(value, dict):
            return [f"{place} is no dict"]
        fields = TYPES[name]
        optional = {key for key, kind in fields.items() if ast.unparse(kind).startswith("NotRequired")}
        off = [f"{place}: {key} is not in {name}" for key in value.keys() - fields.keys()]
        off += [f"{place}: {key} of {name} is missing" for key in fields.keys() - optional - value.keys()]
        return off + [
            text for key in value.keys() & fields.keys() for text in wrong(value[key], fields[key], f"{place}.{key}")
        ]
    if name in ("Any", "Param"):
        return []
    if name != "bool" and isinstance(value, bool):
        return [f"{place} is a bool, not {name}"]
    return [] if isinstance(value, PLAIN[name]) else [f"{place}: {value!r} is no {name}"]


def stub_functions() -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in TREE.body if isinstance(node, ast.FunctionDef)}


def exported() -> set[str]:
    return {name for name in dir(core) if not name.startswith("__")}


def test_stub_and_module_have_the_same_names():
    classes = {node.name for node in TREE.body if isinstance(node, ast.ClassDef)} - set(TYPES)
    constants = {ast.unparse(node.target) for node in TREE.body if isinstance(node, ast.AnnAssign)}
    assert set(stub_functions()) | classes | constants == exported()


@pytest.mark.parametrize("name", sorted(stub_functions()))
def test_parameters_are_those_of_the_module(name):
    arguments = stub_functions()[name].args
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + [ast.unparse(value) for value in arguments.defaults]
    parameters = [(argument.arg, False, default) for argument, default in zip(plain, defaults, strict=True)]
    parameters += [
        (argument.arg, True, default and ast.unparse(default))
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    there = [
        (
            parameter.name,
            parameter.kind is parameter.KEYWORD_ONLY,
            None if parameter.default is parameter.empty else repr(parameter.default),
        )
        for parameter in inspect.signature(getattr(core, name)).parameters.values()
    ]
    assert parameters == there


ANSWERS = {
    "parse_storage": [("raid10f2:4xgp3:500",), ("gp3:1::200",)],
    "storage_limits": [
        ("gp2:100",),
        ("st1:1000",),
        ("io2:100:200", "2024-01-01"),
        ("instance-store:100", None, "m5d.8xlarge"),
    ],
    "sustained_iops": [("2xgp2:100",), ("raid10:4xgp3:500", "2024-01-01")],
    "credit_buckets": [("2xgp2:100",), ("st1:500", None, "m5.large"), ("gp3:100", None, "m5.24xlarge")],
    "seconds_to_empty": [(5.4e6, 3_000.0, 300.0), (1.0, 1.0, 2.0)],
    "storage_cost": [("gp3:500",), ("raid5:3xgp3:500",)],
    "volume_eras": [(), (None, True)],
    "newest_date": [()],
    "checkpoint_law": [("mysql", "8.0.28"), ("mariadb", "10.11")],
    "page_cleaner": [("mysql", "9.7"), ("mariadb", "10.11")],
    "instance": [("m5d.large",), ("t2.micro", "2016-01-01")],
    "instances": [()],
    "core_speed": [("skylake", 3.1)],
    "alone_faster": [("skylake", 3.1)],
    "p95_behind_bursts": [(INNODB, [100.0], [5.0], [True], 1.0, [600.0])],
    "pages_of_burst": [(60.0, 1.0, 600.0), (60.0, 1.0, 0.0)],
    "instance_price": [("m5.large", "us-east-1"), ("m5.large", "nowhere")],
    "volume_prices": [("us-east-1",)],
    "prices_seen": [("us-east-1",)],
    "billed_as": [("gp3",), ("instance-store",)],
    "regions": [()],
    "region_code": [("us-east-1",)],
    "commitment": [("reserved-1y", "m5.large")],
    "check_attachments": [(["gp3:100"], "m5.large")],
    "modification_rules": [("2026-11-01", 100), ("2019-11-01", 100), ("2015-01-01", 100)],
    "database_under": [(INNODB, {"sync_binlog": 0})],
    "cache_after": [(INNODB, 1e8, 2e8)],
    "purged_at": [(INNODB, (1e8, 10.0), (2e8, 100.0), [])],
    "pool_pauses": [(0.06, 160.0, 60.0, 20.0), (8.0, 160.0, 60.0, 20.0)],
    "noise_of_mean": [({"fano": 3.0, "cv": 0.05}, 100.0, 20.0)],
    "page_write_cost": [(), (4_096.0, False)],
    "clients_at_speed": [(INNODB["clients"], 2.0), (INNODB["clients"], None)],
    "core_ms": [(INNODB["clients"],)],
    "cpu_ms_among": [(INNODB["clients"], 64, 10.0, 8, 2)],
    "least_responses": [(INNODB["clients"],)],
    "processor_ms": [(4.0, 0.5, 2), (4.0, 0.5, 2, 80)],
    "processors_tps": [(INNODB["clients"], core.instance("m5.large", None))],
    "sources": [()],
    "monthly_cost": [("gp3:100:4000", "us-east-1")],
    "monthly_totals": [(["gp3:100", "io2:8:100"], "us-east-1")],
    "latency_quantiles": [("gp3", "read", [0.5, 0.99])],
    "latency_profiles": [()],
    "demand_on_volumes": [(LOAD, "raid5:3xgp3:10")],
    "evaluate": [(LOAD, ["gp2:100", "gp3:1:16000"], [0, None], ["m5.large"])],
    "mysql_runs": [(INNODB, [RUN])],
    "mysql_clients": [(INNODB, RUN)],
    "mysql_check": [(INNODB,)],
    "mysql_warm_up": [(INNODB, 1e8), (INNODB, 1e12)],
    "mysql_grown": [(INNODB, 2.0)],
    "mysql_on_flavor": [(INNODB, "mysql", "mariadb", "12.2.2")],
    "mysql_local_disk": [
        (INNODB, 2.0**30, None, 1_920.0, None, None),
        (INNODB, 2.0**30, "sata-ssd", 960.0, (8_000.0, 0.7), "2021-02-23"),
    ],
    "mysql_tpcc": [("innodb", 10.0), ("myrocks", 10.0)],
    "mysql_tprocc": [({"warehouses": 10.0, "cache_gib": 1.0},)],
    "mysql_sysbench": [({"cache_gib": 1.0, "threads": 4},)],
    "cache_gib_for": [(16.0,), (16.0, 0.5)],
    "innodb_free_pages": [("mysql", "8.4.0", 17179869184.0, 8), ("mariadb", "10.11", 134217728.0, 2)],
    "innodb_pool_bytes": [("mysql", "9.7", 163577856.0, 2), ("mariadb", "10.11", 163577856.0, 2)],
    "deployments": [(["rds", "aurora:standard"],)],
    "service_class": [("ec2", "r6g.large"), ("rds:multi-az", "r6g.large")],
    "rds_storage": [("gp3:400",), ("gp2:100",)],
    "rds_ranges": [("gp3",), ("st1",)],
    "service_bill": [
        ("rds:multi-az-cluster", "r6g.large", "gp3:400", "us-east-1"),
        ("aurora:standard", "r6g.large", "gp3:400", "us-east-1", None, 1, 100.0, 5.0),
    ],
    "managed_rule": [("aurora:standard", "rto_low", None, "reader"), ("ec2", "nothing")],
    "service_limits": [("rds:multi-az",)],
    "service_comparison": [()],
    "published_services": [()],
    "aurora_parameters": [()],
    "aurora_quorum": [()],
    "aurora_reader": [(1e6, 1.0, 4), (1e9, 1.0, 4)],
    "aurora_billed": [(INNODB, 2.0, 100.0)],
    "service_runs": [(INNODB, [SERVICE_RUN])],
    "replica_applier": [(INNODB,)],
    "replica_settings": [("mysql", "9.7"), ("mariadb", "10.11")],
}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [(name, call) for name, calls in ANSWERS.items() for call in calls],
    ids=lambda value: str(value)[:40],
)
def test_answers_have_the_types_the_stub_says(name, arguments):
    faults = wrong(getattr(core, name)(*arguments), stub_functions()[name].returns, name)
    assert not faults, "\n".join(faults[:20])


def test_the_simulation_answers_as_the_stub_says():
    for form, cycle in (("interval", "first"), ("events", "first"), ("interval", "settled")):
        answer = core.simulate("gp2:1", LOAD, form=form, interval_s=60.0, instance="m5.large", cycle=cycle)
        assert not wrong(answer, ast.parse("SimulationAnswer", mode="eval").body, form)


def test_every_function_is_called_here_or_says_why():
    reasons = {
        "simulate": "above",
        "replay_record": "needs a record: tests/unit/cli/test_cli.py",
        "replica_run": "by tests/unit/simulation/test_replica.py, through predict_replica",
        "replica_summaries": "by the same, through the doubt of predict_replica",
        "transaction_candidates": "columns by name: tests/unit/planner/test_database.py, through the judge",
    }
    assert set(ANSWERS) | set(reasons) == set(stub_functions())


def test_what_the_stub_says_wrongly_is_found():
    limits = core.storage_limits("gp2:100")[0]
    annotation = ast.parse("VolumeLimits", mode="eval").body
    assert not wrong(limits, annotation, "limits")
    assert wrong(limits | {"iops": "300"}, annotation, "limits") and wrong(limits | {"more": 1}, annotation, "limits")
    assert wrong({key: value for key, value in limits.items() if key != "persistent"}, annotation, "limits")
    assert wrong(limits | {"spec": limits["spec"] | {"size_gib": True}}, annotation, "limits")
