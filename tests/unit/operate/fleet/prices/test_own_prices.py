"""The search at the account's own prices: what a Cost and Usage Report says of each item decides what is advised, as
`headrace plan` decides at the same rates, and as a naive list of everything that could be bought does."""

from __future__ import annotations

import json
import os
import random
import re
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import headrace
from headrace.base import core
from headrace.cli.main import main
from headrace.operate.fleet import planning
from headrace.operate.fleet.advised import reprice
from headrace.operate.fleet.answer import FleetSettings, VolumeAnswer
from headrace.operate.fleet.batch import THROTTLED_S, answer_batch
from headrace.operate.fleet.cost import FleetPrices, read_cost_report
from headrace.operate.fleet.history import DeviceHistory
from headrace.operate.fleet.inventory import FleetDevice, parse_inventory
from headrace.operate.fleet.points import write_points
from headrace.workload import OpenWorkload
from headrace.workload.model import MAX_OUTSTANDING
from headrace.workload.points import make_points

# Number of accounts that are drawn (`make soak` may raise it).
ACCOUNTS = int(os.environ.get("FLEET_ACCOUNTS", "3"))
BEGIN, COUNT = 1_772_409_600.0, 7 * 288
USAGE = {"gib": "VolumeUsage", "iops": "VolumeP-IOPS", "mib_s": "VolumeP-Throughput"}
KINDS = {"gp2": "gp2", "gp3": "gp3", "io1": "piops", "io2": "io2", "st1": "st1", "sc1": "sc1"}
# List prices of us-east-1, data/prices_volumes.csv: a GiB, an IOPS by steps, a MiB/s.
LISTED = {
    "gp2": {"gib": 0.10}, "gp3": {"gib": 0.08, "iops": 0.005, "mib_s": 0.04}, "io1": {"gib": 0.125, "iops": 0.065},
    "io2": {"gib": 0.125, "iops": 0.065, "iops.tier2": 0.0455, "iops.tier3": 0.03185}, "st1": {"gib": 0.045}, "sc1": {"gib": 0.015},
}  # fmt: skip
Rates = dict[str, dict[str, float]]


def cur(path: Path, rates: Rates, volume: str, account: str = "") -> Path:
    """A report in which an account paid these rates, 100 units of each for a month. Throughput is billed in GiB/s."""
    rows = [
        {
            "bill_billing_period_start_date": "2026-10-01T00:00:00.000Z",
            "line_item_line_item_type": "Usage",
            "line_item_resource_id": volume,
            "line_item_usage_type": f"EBS:{USAGE[item.partition('.')[0]]}.{KINDS[kind]}"
            + (f".{item.partition('.')[2]}" if "." in item else ""),
            "line_item_usage_amount": 100.0 / (1024 if item == "mib_s" else 1),
            "line_item_unblended_cost": 100.0 * rate,
            "line_item_usage_account_id": account,
        }
        for kind, items in rates.items()
        for item, rate in items.items()
    ]
    pl.DataFrame(rows).write_parquet(path)
    return path


def one_volume(kind: str, size: int, rate: float, **more) -> tuple[FleetDevice, dict[str, pl.DataFrame], dict]:
    """A volume that is asked for `rate` requests a second of 8 KiB at noon and little at night, for a week."""
    described = {
        "VolumeId": "vol-00000000000000001", "VolumeType": kind, "Size": size, "AvailabilityZone": "us-east-1a",
        "State": "in-use", "Attachments": [], **more,
    }  # fmt: skip
    request = np.round(300 * rate / 2 * np.maximum(0.02, np.sin(np.arange(COUNT) / 288 * 2 * np.pi)))
    nothing = [float("nan")] * COUNT
    rows = pl.DataFrame(
        {
            "volume": [described["VolumeId"]] * COUNT, "t_unix": BEGIN + 300.0 * np.arange(COUNT), "period_s": [300.0] * COUNT,
            "read_ops": request, "write_ops": request, "read_bytes": request * 8192, "write_bytes": request * 8192, "queue": nothing,
            "balance_percent": nothing, "iops_exceeded": nothing, "throughput_exceeded": nothing, "account": [""] * COUNT,
        }
    )  # fmt: skip
    (device,) = parse_inventory([described]).list_devices()
    return device, {device.key: rows}, described


def settings_at(path: Path, device: FleetDevice) -> FleetSettings:
    member = device.members[0]
    prices = FleetPrices(report=read_cost_report([path], {member.id: member.region}))
    tables = prices.list_tables([(member.region, member.account)])
    return FleetSettings(fortnights=0, tables=tables, prices=prices.source)


def headrace_fleet(folder: Path, *typed: str) -> int:
    before = os.getcwd()
    os.chdir(folder)
    try:
        return main(["fleet", *typed])
    finally:
        os.chdir(before)


# --- decisions that the account's rates change ----------------------------------------------------


def test_20_percent_off_gp3_storage_alone_changes_the_decision(tmp_path, capsys):
    """gp2:20 costs 2.00 and gp3:20 1.60 at list: 0.40 is below the least saving of 0.50, so it stays. At 0.064 a GiB gp3
    costs 1.28 and saves 0.72. gp2:10 (1.00) would save 0.36, and stays either way."""
    small, points, described = one_volume("gp2", 20, 40.0)
    cost = cur(tmp_path / "cur.parquet", {"gp3": {"gib": 0.8 * 0.08}}, small.key)
    (at_list,) = answer_batch([small], points, FleetSettings(fortnights=0))
    (own,) = answer_batch([small], points, settings_at(cost, small))
    assert (at_list.verdict, at_list.usd_today) == ("keep", pytest.approx(2.00)) and at_list.prices == "list prices"
    assert (own.verdict, own.proposed, own.usd_today) == ("change", "gp3:20", pytest.approx(2.00))
    assert own.usd_proposed == pytest.approx(1.28) and own.prices == "rates of the Cost and Usage Report of 2026-10"
    smaller, rows, _ = one_volume("gp2", 10, 40.0)
    assert answer_batch([smaller], rows, settings_at(cost, smaller))[0].verdict == "keep"
    # And as it is typed: the note says what is at own rates and what is not; the report knows what prices it has.
    write_points(tmp_path / "points.parquet", points.values())
    (tmp_path / "volumes.json").write_text(json.dumps({"Volumes": [described]}))
    plan = ("plan", "points.parquet", "--inventory", "volumes.json", "--to", "answers.parquet", "--fortnights", "0")
    assert headrace_fleet(tmp_path, *plan, "--cost", "cur.parquet") == 0
    output = capsys.readouterr()
    assert "(saving 0.72 USD a month). Prices: rates of the Cost and Usage Report of 2026-10" in output.out
    assert (
        "Prices in us-east-1, all accounts of the report: own rates of gp3 GiB (20.0 % below list); list prices of "
        in output.err
    )
    assert "gp2 GiB, gp3 IOPS, gp3 MiB/s, io1 GiB, " in output.err
    assert headrace_fleet(tmp_path, "report", "answers.parquet", "--output", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["prices"] == own.prices and document["saves_usd_month"] == pytest.approx(0.72)
    # A plan at list prices that is shown at others says so.
    assert headrace_fleet(tmp_path, *plan, "--force") == 0
    assert "can be changed" not in capsys.readouterr().out
    details = ("report", "answers.parquet", "--inventory", "volumes.json", "--cost", "cur.parquet")
    assert headrace_fleet(tmp_path, *details) == 0
    assert "The advice was searched at list prices: give the same options to fleet plan" in capsys.readouterr().err


def test_half_price_gp2_is_found_though_no_list_price_would_find_it(tmp_path):
    """gp3:1000 costs 80.00; gp2:1000 100.00 at list, and 50.00 at half its price: 3,000 IOPS either way."""
    device, points, _ = one_volume("gp3", 1000, 900.0, Iops=3000, Throughput=125)
    (at_list,) = answer_batch([device], points, FleetSettings(fortnights=0))
    assert (at_list.verdict, at_list.proposed) == ("keep", "")
    cost = cur(tmp_path / "cur.parquet", {"gp2": {"gib": 0.05}}, device.key)
    (own,) = answer_batch([device], points, settings_at(cost, device))
    assert (own.verdict, own.proposed, own.usd_proposed) == ("change", "gp2:1000", pytest.approx(50.0))
    # Prices of the plan and of the report are the same.
    prices = FleetPrices(report=read_cost_report([cost], {device.key: "us-east-1"}))
    assert reprice([own], prices) == [own]


def test_a_discount_or_a_price_file_decides_as_well(tmp_path, capsys):
    """gp3:20 for 1.28 by an own rate; and 0.40 saved at list, so 0.20 at half of it: nothing is advised."""
    _, points, described = one_volume("gp2", 20, 40.0)
    write_points(tmp_path / "points.parquet", points.values())
    (tmp_path / "volumes.json").write_text(json.dumps({"Volumes": [described]}))
    (tmp_path / "rates.toml").write_text("[volumes.gp3]\ngib = 0.064\n")
    plan = (
        "plan",
        "points.parquet",
        "--inventory",
        "volumes.json",
        "--to",
        "a.parquet",
        "--fortnights",
        "0",
        "--force",
    )
    assert headrace_fleet(tmp_path, *plan, "--price-file", "rates.toml") == 0
    out = capsys.readouterr().out
    assert "1 can be changed (saving 0.72 USD a month)" in out
    assert re.search(r"Prices: List prices for us-east-1 in USD; .*1 own rate of rates\.toml\.", " ".join(out.split()))
    assert headrace_fleet(tmp_path, *plan, "--discount-percent", "50") == 0
    assert "can be changed" not in capsys.readouterr().out


def test_answers_that_were_kept_at_other_prices_do_not_count(tmp_path):
    device, points, described = one_volume("gp2", 20, 40.0)
    write_points(tmp_path / "points.parquet", points.values())
    inventory = parse_inventory([described])
    counts: list[int] = []

    def stopped(batches, *rest):
        counts.append(len(batches))
        yield from planning.answer_in_process(batches, *rest)
        raise KeyboardInterrupt

    def run(settings: FleetSettings) -> None:
        to = tmp_path / "a.parquet"
        with pytest.raises(KeyboardInterrupt):
            planning.plan_fleet(inventory, tmp_path / "points.parquet", settings, to, runner=stopped)

    own = settings_at(cur(tmp_path / "cur.parquet", {"gp3": {"gib": 0.064}}, device.key), device)
    dearer = settings_at(cur(tmp_path / "cur.parquet", {"gp3": {"gib": 0.065}}, device.key), device)
    for settings in (FleetSettings(fortnights=0), own, own, dearer):
        run(settings)
    assert counts == [1, 1, 0, 1]


# --- against the planner, and against a naive list ------------------------------------------------


def drawn(seed: int) -> tuple[random.Random, Rates]:
    """The rates of an account: of some items, up to 60 % below list or a little above."""
    draw = random.Random(seed)
    rates = {
        kind: {item: usd * draw.uniform(0.4, 1.1) for item, usd in items.items() if draw.random() < 0.7}
        for kind, items in LISTED.items()
    }
    return draw, {kind: items for kind, items in rates.items() if items} or {"gp3": {"gib": 0.06}}


def price_file(path: Path, rates: Rates) -> Path:
    """Writes the rates as a file that `headrace plan` takes: those that the account did not pay as
    listed."""
    lines = []
    for kind, items in LISTED.items():
        paid = items | rates.get(kind, {})
        lines += [f"[volumes.{kind}]", f"gib = {paid['gib']!r}"]
        if kind == "io2":  # steps: data/prices_volumes.csv
            steps = zip((0, 32_000, 64_000), ("iops", "iops.tier2", "iops.tier3"), strict=True)
            lines.append(f"iops = [{', '.join(f'{{ above = {at}, price = {paid[item]!r} }}' for at, item in steps)}]")
        elif "iops" in paid:
            lines.append(f"iops = {paid['iops']!r}")
        lines += [f"mib_s = {paid['mib_s']!r}"] if "mib_s" in paid else []
    path.write_text("\n".join(lines))
    return path


TODAY = [
    ("gp2", 334, {}), ("gp3", 500, {"Iops": 6000, "Throughput": 250}), ("io1", 200, {"Iops": 5000}), ("io2", 100, {"Iops": 4000}),
]  # fmt: skip


def naive_usd(storage: str, rates: Rates) -> float:
    """A month's bill by hand. Source of what is included in gp3: docs.aws.amazon.com/ebs, general-purpose.html: 3,000 IOPS and
    125 MiB/s."""
    kind, size, *rest = storage.split(":")
    paid = LISTED[kind] | rates.get(kind, {})
    usd = int(size) * paid["gib"]
    figures = [float(entry) for entry in rest]
    if kind == "gp3":
        iops, mib_s = (figures + [3000.0, 125.0][len(figures) :])[:2]
        usd += max(0.0, iops - 3000) * paid["iops"] + max(0.0, mib_s - 125) * paid["mib_s"]
    elif kind in ("io1", "io2"):
        assert figures[0] <= 32_000  # the first step
        usd += figures[0] * paid["iops"]
    return usd


@pytest.mark.parametrize("seed", range(ACCOUNTS))
def test_advice_at_own_prices_is_the_planners_and_the_cheapest_of_a_naive_list(tmp_path, seed):
    draw, rates = drawn(seed)
    kind, size, more = TODAY[seed % len(TODAY)]
    device, points, _ = one_volume(kind, size, draw.uniform(100, 900 if kind == "gp2" else 3_500), **more)
    settings = settings_at(cur(tmp_path / "cur.parquet", rates, device.key), device)
    (answer,) = answer_batch([device], points, settings)
    assert answer.verdict in ("change", "keep") and not answer.today_throttled_min, answer.why
    assert answer.usd_today == pytest.approx(naive_usd(answer.today, rates))
    plan = headrace.plan(
        workload(points[device.key], size),
        goals=[f"p99_ms<={max(5.0, answer.today_p99_ms or 0.0)!r}", "throttled_min<=0", "headroom_percent>=30"],
        compare=answer.today,
        free_percent=0,
        exclude="standard",
        price_file=price_file(tmp_path / "prices.toml", rates),
    )
    best = _naive(answer, points[device.key], size, rates)
    saves = naive_usd(answer.today, rates) - best
    if answer.proposed:
        place = plan.choices.in_place
        assert answer.usd_proposed is not None and place is not None and answer.proposed == place.storage
        assert answer.usd_proposed == pytest.approx(place.cost_usd_month)
        assert answer.usd_proposed == pytest.approx(naive_usd(answer.proposed, rates))
        # The search stops within a thousandth of the cheapest (planner.search); the naive list has steps of 10 IOPS.
        assert answer.usd_proposed <= best * 1.001 + 0.01
    else:
        assert saves < max(0.5, 0.02 * (answer.usd_today or 0.0)) * 1.001 + 0.01


def workload(rows: pl.DataFrame, size: int) -> OpenWorkload:
    rates = [rows[f"{name}_ops"] / 300 for name in ("read", "write")]
    sizes = [np.where(rate > 0, 8.0, 0.5) for rate in rates]
    points = make_points(rows["t_unix"] - BEGIN, rows["period_s"], *rates, *sizes)
    return OpenWorkload(name="v", kind="constant", points=points, size_gib=float(size))


def _naive(answer: VolumeAnswer, rows: pl.DataFrame, size: int, rates: Rates) -> float:
    """The least that anything costs that carries the demand: every type, sizes from today's on, IOPS in steps of ten."""
    sizes = range(size, size + 1200, 4)
    listed = [f"{kind}:{gib}" for kind in ("gp2", "st1", "sc1") for gib in sizes if kind == "gp2" or gib >= 125]
    listed += [f"gp3:{size}:{iops}:{mib_s}" for iops, mib_s in product(range(3000, 5001, 10), (125, 130, 140, 200))]
    listed += [f"{kind}:{size}:{iops}" for kind in ("io1", "io2") for iops in range(100, min(5001, 50 * size), 10)]
    listed = [storage for storage in listed if naive_usd(storage, rates) < naive_usd(answer.today, rates)]
    ops = [(rows[f"{name}_ops"] / 300).to_numpy() for name in ("read", "write")]
    size_bytes = [np.where(rate > 0, 8192.0, 0.0) for rate in ops]
    columns = dict(zip(DeviceHistory.COLUMNS, (np.full(COUNT, 300.0), *ops, *size_bytes), strict=True))
    demands = core.FleetDemands(**columns, lengths=[COUNT], max_outstanding=MAX_OUTSTANDING)
    count, bound = len(listed), max(5.0, answer.today_p99_ms or 0.0)
    met = demands.meets([0] * count, listed, [None] * count, [1.3] * count, [bound] * count, THROTTLED_S)
    fitting = [naive_usd(storage, rates) for storage, fits in zip(listed, met, strict=True) if fits]
    return min(fitting, default=naive_usd(answer.today, rates))
