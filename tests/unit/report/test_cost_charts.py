"""Charts of cost: services and layouts are told apart, names lie on no axis, storage has its own name."""

from __future__ import annotations

from types import SimpleNamespace

import polars as pl
import pytest

from headrace.report.charts import cost, drawing, style

SERVICES = ("rds:single-az", "rds:multi-az", "rds:multi-az-cluster")


def plan_of(families, recommended=(100.0, 10.0)):
    """A plan whose families have two points each."""
    rows = [
        {
            "family": family,
            "instance": "r6i.large",
            "storage": "gp3:100",
            "cost_usd_month": 100.0 + 50 * index + 20 * step,
            "tps": 10.0 + 40 * index + 30 * step,
            "tps_low": 5.0,
            "tps_high": 400.0,
        }
        for index, family in enumerate(families)
        for step in range(2)
    ]
    usd, tps = recommended
    chosen = SimpleNamespace(cost_usd_month=usd, metrics={"tps": tps})
    goal = SimpleNamespace(metric="tps", limit=60.0)
    choices = SimpleNamespace(frontier=pl.DataFrame(rows))
    return SimpleNamespace(choices=choices, goals=[goal], recommended=chosen)


def layers_of(chart) -> list[dict]:
    return chart.to_dict()["layer"]


@pytest.mark.parametrize(
    ("family", "service", "storage"),
    [
        ("gp3", "ec2", "gp3"),
        ("gp2 RAID 10", "ec2", "gp2"),
        ("rds:single-az gp3", "rds:single-az", "gp3"),
        ("rds:multi-az io2", "rds:multi-az", "io2"),
        ("aurora:standard", "aurora:standard", "Standard"),
        ("aurora:io-optimized", "aurora:io-optimized", "I/O-Optimized"),
        ("standard", "ec2", "standard"),
        ("something new", "ec2", "other"),
        (None, "ec2", "other"),
    ],
)
def test_a_family_s_service_and_storage(family, service, storage):
    assert (cost.get_service(family), cost.get_storage(family)) == (service, storage)


def test_lines_of_services_can_be_told_apart():
    families = [f"{service} {kind}" for service in SERVICES[:2] for kind in ("gp2", "gp3")]
    families += ["gp3", "gp3 RAID 0", "gp3 RAID 10", "aurora:standard"]
    chart = cost.draw_against_tps(plan_of(families))
    points = next(layer for layer in layers_of(chart) if "shape" in layer["encoding"])
    colours, shapes = (points["encoding"][name]["scale"] for name in ("color", "shape"))
    assert colours["domain"] == shapes["domain"] and len(set(colours["range"])) == len(families)
    assert style.OTHER_FAMILY not in colours["range"][:4]
    of = dict(zip(shapes["domain"], shapes["range"], strict=True))
    assert len({of[f"{service} gp3 on r6i.large"] for service in SERVICES[:2]} | {of["gp3 on r6i.large"]}) == 3
    lines = next(layer for layer in layers_of(chart) if "strokeDash" in layer["encoding"])
    assert lines["encoding"]["strokeDash"]["scale"]["domain"] == ["no RAID", "RAID 0", "RAID 10"]
    drawn = drawing.render_svg(chart)
    assert all(f"{family} on r6i.large" in drawn for family in families)


def test_colours_come_again_only_where_there_are_more_lines_than_colours():
    names = {f"{index}": "gp3 RAID 0" for index in range(11)}
    colours = list(cost.choose_line_colours(names).values())
    assert len(set(colours[:8])) == 8 and set(colours) <= set(style.PALETTE)


@pytest.mark.parametrize("recommended", [(100.0, 0.5), (100.0, 80.0), (250.0, 390.0)])
def test_the_recommended_is_named_above_the_axes(recommended):
    chart = cost.draw_against_tps(plan_of(["gp3", "gp2"], recommended))
    named = [layer for layer in layers_of(chart) if layer["mark"]["type"] == "text"]
    heights = [layer["encoding"]["y"].get("value") for layer in named if layer["encoding"]["text"]["field"] == "text"]
    assert heights == [-4]
    assert "recommended" in drawing.render_svg(chart)


def test_storage_of_rds_is_named_by_its_type_and_services_by_shape():
    point = {"instance": None, "meets_goals": True, "storage": "gp3:400", "p99_ms": 3.0}
    families = ["gp3", "rds:single-az gp3", "rds:single-az io1"]
    points = [point | {"family": family, "cost_usd_month": 10.0 + at} for at, family in enumerate(families)]
    points[0]["meets_goals"] = False
    chart = cost.draw_frontier(points, None, None)
    drawn = drawing.render_svg(chart)
    assert ">io1<" in drawn and ">rds:single-az<" in drawn and ">standard<" not in drawn
    # One service needs no legend of services.
    assert ">service<" in drawn and ">service<" not in drawing.render_svg(cost.draw_frontier(points[:1], None, None))


def test_a_bill_has_its_server_first_and_one_colour_for_a_kind():
    def item(name, usd, part="data", unit="GB-month"):
        return {"item": name, "usd": usd, "part": part, "unit": unit}

    items = [
        item("gp3 storage", 8.0),
        item("gp3 storage", 2.0, "log"),
        item("m5.large", 70.0, "instance", "hour"),
        item("gp3 IOPS above 3000", 5.0),
        item("snapshots", 1.0, "snapshots"),
    ]
    other = [item("db.m5.large", 90.0, "instance", "h"), item("aurora I/O requests", 7.0)]
    [rows] = [
        rows
        for rows in cost.draw_bill_chart([("a", items), ("b", other)]).to_dict()["datasets"].values()
        if "kind" in rows[0]
    ]
    kinds = [row["kind"] for row in sorted(rows, key=lambda row: row["place"]) if row["choice"] == "a"]
    assert kinds == ["server", "storage", "IOPS and MiB/s", "snapshots"]
    assert sum(row["usd"] for row in rows) == 183.0


def test_a_recommended_choice_beside_the_lines_is_a_point_too():
    from headrace.report import plan_charts

    best = SimpleNamespace(
        storage="gp3:600:7270",
        instance="m6i.xlarge",
        family="gp3",
        service="ec2",
        cost_usd_month=209.51,
        meets_goals=True,
        metrics={"p99_ms": 1.5},
    )
    row = {"storage": "gp3:400", "instance": "m6i.xlarge", "family": "gp3", "cost_usd_month": 190.0, "p99_ms": 2.0}
    frontier = pl.DataFrame([row | {"meets_goals": True}])
    choices = SimpleNamespace(frontier=frontier, compared=None, in_place=None)
    plan = SimpleNamespace(recommended=best, choices=choices)
    points = plan_charts.list_points(plan)
    assert len(points) == 2 and points[1]["p99_ms"] == 1.5
    assert "gp3:600:7270 on m6i.xlarge" in drawing.render_svg(
        cost.draw_frontier(points, "gp3:600:7270 on m6i.xlarge", 20.0)
    )
    best.storage = "gp3:400"
    assert len(plan_charts.list_points(plan)) == 1


def test_a_comparison_has_a_row_for_each_service_and_no_empty_legend():
    from headrace.report.charts import predictions as services

    def outcome(name, usd, items):
        rates = {"tps": 10.0, "tps_low": 5.0, "tps_high": 20.0, "refusal": None}
        return SimpleNamespace(deployment=name, bill=SimpleNamespace(usd_month=usd, items=items), **rates)

    server = {"item": "db.r6g.large", "unit": "h", "usd": 100.0}
    comparison = SimpleNamespace(
        outcomes=[outcome("rds:single-az", 100.0, [server]), outcome("rds:multi-az-cluster", None, [])]
    )
    drawn = drawing.render_svg(services.draw_side_by_side(comparison, "t"))
    assert drawn.count(">rds:multi-az-cluster<") == 2 and ">server<" in drawn and ">snapshots<" not in drawn
