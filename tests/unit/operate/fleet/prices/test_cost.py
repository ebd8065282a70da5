"""Bills to the cent: from list prices, and from a Cost and Usage Report made hour by hour as AWS makes it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from headrace.errors import HeadraceError
from headrace.operate.fleet.cost import CostReport, FleetPrices, read_cost_report

HOURS = 744  # of October
MINE, OTHER = "111111111111", "222222222222"
REGIONS = {"vol-a": "us-east-1", "vol-b": "us-east-1", "vol-c": "us-east-1", "vol-d": "us-east-1"}


def rows_of(
    volume: str, usage: str, quantity: float, price: float, hours: int = HOURS, account: str = MINE, **more
) -> list[dict]:
    """A volume's row for each hour of its life in October: AWS bills the share of the month."""
    amount = quantity / HOURS
    row = {
        "bill_billing_period_start_date": "2026-10-01T00:00:00.000Z",
        "line_item_line_item_type": "Usage",
        "line_item_resource_id": volume,
        "line_item_usage_type": usage,
        "line_item_usage_amount": amount,
        "line_item_unblended_cost": amount * price,
        "line_item_usage_account_id": account,
        "line_item_currency_code": "USD",
    }
    return [row | more for _ in range(hours)]


def other(kind: str, usd: float, volume: str = "", usage: str = "", **more) -> list[dict]:
    return [
        rows_of(volume, usage, 0.0, 0.0, 1)[0]
        | {"line_item_line_item_type": kind, "line_item_unblended_cost": usd}
        | more
    ]


# A month of gp3 of 500 GiB with 6,000 IOPS and 250 MiB/s at list prices of us-east-1 (data/prices_volumes.csv):
# 500 x 0.08 + 3,000 x 0.005 + 125 x 0.04 = 40 + 15 + 5 = 60.00. The report has the 125 MiB/s as 125 / 1024 GiB/s
# at 40.96.
GP3 = (
    rows_of("vol-a", "EBS:VolumeUsage.gp3", 500, 0.08)
    + rows_of("vol-a", "EBS:VolumeP-IOPS.gp3", 3000, 0.005)
    + rows_of("vol-a", "EBS:VolumeP-Throughput.gp3", 125 / 1024, 40.96)
)
# io2 of 1,000 GiB with 100,000 IOPS: 125.00 + 32,000 x 0.065 + 32,000 x 0.0455 + 36,000 x 0.03185
# = 125 + 2,080 + 1,456 + 1,146.60 = 4,807.60.
IO2 = (
    rows_of("vol-b", "EBS:VolumeUsage.io2", 1000, 0.125)
    + rows_of("vol-b", "EBS:VolumeP-IOPS.io2", 32000, 0.065)
    + rows_of("vol-b", "EBS:VolumeP-IOPS.io2.tier2", 32000, 0.0455)
    + rows_of("vol-b", "EBS:VolumeP-IOPS.io2.tier3", 36000, 0.03185)
)


def report(tmp_path: Path, rows: list[dict], name: str = "cur.parquet") -> CostReport:
    path, frame = tmp_path / name, pl.DataFrame(rows)
    frame.write_parquet(path) if path.suffix == ".parquet" else frame.write_csv(path)
    return read_cost_report([path], REGIONS)


@pytest.mark.parametrize(
    ("storage", "usd"),
    [
        ("gp3:500:6000:250", 60.00),
        ("io2:1000:100000", 4807.60),
        ("gp2:1000", 100.00),  # 1,000 x 0.10
        ("st1:500", 22.50),  # 500 x 0.045
        ("io1:400:9000", 635.00),  # 50 + 585
        ("4xgp3:100:4000", 52.00),  # 4 x (8 + 5)
    ],
)
def test_list_prices_to_the_cent(storage, usd):
    prices = FleetPrices()
    assert round(prices.compute_bill(storage, "us-east-1").usd, 2) == usd
    assert round(prices.compute_totals([storage], "us-east-1")[0], 2) == usd
    assert round(FleetPrices(discount_percent=10).compute_bill(storage, "us-east-1").usd, 2) == round(0.9 * usd, 2)


@pytest.mark.parametrize("name", ["cur.parquet", "cur.csv"])
def test_a_report_at_list_prices_gives_their_bills(tmp_path, name):
    cost_report = report(tmp_path, GP3 + IO2, name)
    assert cost_report.month == "2026-10"
    assert {key: round(usd, 2) for key, usd in cost_report.billed.items()} == {"vol-a": 60.00, "vol-b": 4807.60}
    prices = FleetPrices(report=cost_report)
    assert round(prices.compute_bill("gp3:500:6000:250", "us-east-1", MINE).usd, 2) == 60.00
    assert round(prices.compute_bill("io2:1000:100000", "us-east-1", MINE).usd, 2) == 4807.60
    assert {item["source"] for item in prices.compute_bill("gp3:8:4000:250", "us-east-1", MINE).items} == {
        "Cost and Usage Report of 2026-10"
    }
    assert prices.source == "rates of the Cost and Usage Report of 2026-10"


def test_a_volume_that_lived_ten_days_has_a_month_s_bill(tmp_path):
    cost_report = report(tmp_path, rows_of("vol-a", "EBS:VolumeUsage.gp2", 1000, 0.10, hours=240))
    assert round(cost_report.billed["vol-a"], 2) == 32.26  # 240 of 744 hours of 100.00
    assert round(FleetPrices(report=cost_report).compute_bill("gp2:1000", "us-east-1", MINE).usd, 2) == 100.00


def test_discounts_are_taken_off_and_credits_and_tax_are_told(tmp_path):
    """A discount of 20 % as a row of its own: the 40.00 of storage become 32.00, and 500 GiB at 0.064 are paid. gp2 is
    not in the report: its list price is taken, whatever gp3 has off."""
    rows = GP3 + other("EdpDiscount", -8.0, "vol-a", "EBS:VolumeUsage.gp3")
    rows += other("Credit", -1000.0, "vol-a", "EBS:VolumeUsage.gp3") + other("Tax", 12.5) + other("Refund", -1.0)
    cost_report = report(tmp_path, rows)
    prices = FleetPrices(report=cost_report)
    assert round(cost_report.billed["vol-a"], 2) == 52.00
    assert round(prices.compute_bill("gp3:500:6000:250", "us-east-1", MINE).usd, 2) == 52.00
    assert round(prices.compute_bill("gp3:500", "us-east-1", MINE).usd, 2) == 32.00
    assert round(prices.compute_bill("gp2:1000", "us-east-1", MINE).usd, 2) == 100.00
    assert [note.split(" is not")[0] for note in cost_report.notes if "rate:" in note] == [
        "Credit of -1,000.00 USD", "Refund of -1.00 USD", "Tax of 12.50 USD",
    ]  # fmt: skip


def test_a_net_cost_takes_the_place_of_the_unblended_cost_and_its_discounts(tmp_path):
    """20 % off in the net cost, and the same discount as a row, whose net cost is 0: 32.00, and not 24.00. Usage without a
    net cost keeps the unblended one."""
    for discount in (0.0, None):
        rows = [row | {"line_item_net_unblended_cost": 0.8 * row["line_item_unblended_cost"]} for row in GP3[:HOURS]]
        rows += [row | {"line_item_net_unblended_cost": None} for row in GP3[HOURS:]]
        rows += [
            row | {"line_item_net_unblended_cost": discount}
            for row in other("EdpDiscount", -8.0, "vol-a", "EBS:VolumeUsage.gp3")
        ]
        prices = FleetPrices(report=report(tmp_path, rows))
        assert round(prices.compute_bill("gp3:500", "us-east-1", MINE).usd, 2) == 32.00
        assert round(prices.compute_bill("gp3:500:6000:250", "us-east-1", MINE).usd, 2) == 52.00


def test_what_is_at_own_rates_and_what_is_listed_is_told(tmp_path):
    rows = rows_of("vol-a", "EBS:VolumeUsage.gp3", 500, 0.064) + rows_of("vol-a", "EBS:VolumeP-IOPS.gp3", 3000, 0.005)
    rows += rows_of("vol-b", "EBS:VolumeP-IOPS.io2.tier2", 32000, 0.05)
    prices = FleetPrices(report=report(tmp_path, rows))
    [table] = prices.list_tables([("us-east-1", MINE), ("us-east-1", MINE)])
    # 0.064 / 0.08 = 0.8; 0.05 / 0.0455 = 1.0989.
    own = "gp3 GiB (20.0 % below list), gp3 IOPS (as listed), io2 IOPS (step 2) (9.9 % above list)"
    listed = "gp2 GiB, gp3 MiB/s, io1 GiB, io1 IOPS, io2 GiB, io2 IOPS, io2 IOPS (step 3), sc1 GiB, st1 GiB, standard GiB, standard I/Os"
    assert table.words == (
        f"us-east-1, account {MINE}: own rates of {own}; list prices of {listed}, which the report does not have (a discount on all usage would lower these too)"
    )
    # Another account, of which the report has nothing, has the rates of all; a region without prices none.
    assert [table.words[:38] for table in prices.list_tables([("us-east-1", OTHER), ("nowhere-9", OTHER)])] == [
        "us-east-1, all accounts of the report:"
    ]
    assert [table.words for table in FleetPrices().list_tables([("us-east-1", MINE)])] == [""]


def test_accounts_have_their_own_rates(tmp_path):
    rows = rows_of("vol-a", "EBS:VolumeUsage.gp3", 100, 0.08) + rows_of(
        "vol-b", "EBS:VolumeUsage.gp3", 100, 0.04, account=OTHER
    )
    prices = FleetPrices(report=report(tmp_path, rows))
    totals = [prices.compute_totals(["gp3:100"], "us-east-1", account)[0] for account in (MINE, OTHER, "")]
    assert [round(usd, 2) for usd in totals] == [8.00, 4.00, 6.00]


def test_prefixes_magnetic_and_piops(tmp_path):
    """us-west-2 in the usage type; magnetic is billed by I/Os too, one by one: 3 million at 0.05 a million."""
    rows = rows_of("vol-a", "USW2-EBS:VolumeUsage.piops", 400, 0.125)
    rows += rows_of("vol-a", "USW2-EBS:VolumeP-IOPS.piops", 9000, 0.065)
    rows += rows_of("arn:aws:ec2:us-east-1:1:volume/vol-c", "EBS:VolumeUsage", 100, 0.05)
    rows += rows_of("vol-c", "EBS:VolumeIOUsage", 3e6, 0.05e-6) + rows_of("vol-d", "EBS:SnapshotUsage", 5, 0.05)
    prices = FleetPrices(report=report(tmp_path, rows))
    assert round(prices.compute_bill("io1:400:9000", "us-east-1", MINE).usd, 2) == 635.00
    assert round(prices.compute_bill("standard:100", "us-east-1", MINE, million_ios=3.0).usd, 2) == 5.15


REFUSED = {
    "credits only": (other("Credit", -3.0, "vol-a", "EBS:VolumeUsage.gp3"), "has no usage of EBS volumes"),
    "another fleet": (rows_of("vol-x", "EBS:VolumeUsage.gp3", 1, 0.08), "none of the inventory's volumes"),
    "usage below 0": (rows_of("vol-a", "EBS:VolumeUsage.gp3", -1, 0.08), "cannot be negative"),
    "euros": ([row | {"line_item_currency_code": "EUR"} for row in GP3[:3]], "US dollars"),
    "no column": ([{"lineItem/ResourceId": "vol-a"}], "this column is needed"),
    "no numbers": ([row | {"line_item_usage_amount": "many"} for row in GP3[:3]], "is not a table of a cost report"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("name", ["cur.parquet", "cur.csv"])
def test_reports_that_tell_no_rate_are_refused(tmp_path, case, name):
    rows, rule = REFUSED[case]
    with pytest.raises(HeadraceError) as refused:
        report(tmp_path, rows, name)
    assert rule in refused.value.rule and refused.value.hint


def test_two_months_and_files_that_are_none(tmp_path):
    earlier = [
        row | {"bill_billing_period_start_date": "2026-09-01T00:00:00.000Z"}
        for row in rows_of("vol-a", "EBS:VolumeUsage.gp3", 1, 9)
    ]
    cost_report = report(tmp_path, earlier + GP3)
    assert cost_report.month == "2026-10" and any("2026-09, 2026-10" in note for note in cost_report.notes)
    (tmp_path / "no.parquet").write_bytes(b"PAR1 cut")
    for name in ("no.parquet", "gone.csv"):
        with pytest.raises(HeadraceError):
            read_cost_report([tmp_path / name], REGIONS)
    with pytest.raises(HeadraceError, match="Leave one"):
        FleetPrices(report=cost_report, discount_percent=5)
