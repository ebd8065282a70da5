"""Prices of plans: bills to the cent by independent arithmetic, discounts, own price files,
snapshots, and refusals."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.base import core
from headrace.catalog.facts import check_region
from headrace.catalog.price_list import HOURS_PER_MONTH, PriceList, read_price_file
from headrace.errors import InputError

# Bills are sums of a few products of prices with at most five decimals, far below 1e5 USD: doubles
# hold them to 1e-9; half a cent is the figure shown.
CENT = 0.005


def usd(items: list[dict]) -> float:
    return sum(item["usd"] for item in items)


def written(tmp_path, text: str):
    path = tmp_path / "prices.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("region", "day", "storage", "million_ios", "total"),
    [
        # 500 x 0.08 + 3,000 x 0.005 + 125 x 0.04
        ("us-east-1", "2026-11-21", "gp3:500:6000:250", 0.0, 60.00),
        # 4 x (500 x 0.088 + 1,000 x 0.0055 + 75 x 0.044) = 4 x (44 + 5.50 + 3.30)
        ("eu-west-1", "2026-11-21", "raid10:4xgp3:500:4000:200", 0.0, 211.20),
        ("us-east-1", "2026-11-21", "gp2:1000", 0.0, 100.00),
        # 1,024 x 0.125 + 10,000 x 0.065
        ("us-east-1", "2018-08-15", "io1:1024:10000", 0.0, 778.00),
        # 500 x 0.125 + 32,000 x 0.065 + 32,000 x 0.0455 + 36,000 x 0.03185
        ("us-east-1", "2026-11-21", "io2:500:100000", 0.0, 4745.10),
        # Block Express is billed as io2: 100 x 0.125 + 1,000 x 0.065
        ("us-east-1", "2026-11-21", "io2bx:100:1000", 0.0, 77.50),
        # 100 x 0.05 + 260 x 0.05
        ("us-east-1", "2026-11-21", "standard:100", 260.0, 18.00),
        ("us-east-1", "2026-11-21", "st1:2000", 0.0, 90.00),
        ("us-east-1", "2026-11-21", "instance-store:100", 0.0, 0.00),
    ],
)
def test_list_bills_to_the_cent(region, day, storage, million_ios, total):
    prices = PriceList(region, day)
    assert usd(prices.list_volume_items(storage, million_ios)) == pytest.approx(total, abs=CENT)
    assert prices.compute_volume_totals([storage], million_ios)[0] == pytest.approx(total, abs=CENT)


def test_items_name_source_and_day():
    for item in PriceList("us-east-1", "2026-11-21").list_volume_items("gp3:500:6000:250"):
        assert set(item) == {"item", "quantity", "unit", "unit_price_usd", "usd", "source", "as_of"}
        assert item["source"] and item["as_of"][:2] == "20"


def test_discount_is_off_every_list_price():
    listed, less = PriceList(), PriceList(discount_percent=8)
    # 60.00 x 0.92.
    assert usd(less.list_volume_items("gp3:500:6000:250")) == pytest.approx(55.20, abs=CENT)
    # 730 x 0.096 x 0.92 = 64.4736.
    assert usd(less.list_instance_items("m5.large")) == pytest.approx(64.47, abs=CENT)
    assert less.compute_instance_hour_usd("m5.large") == pytest.approx(
        listed.compute_instance_hour_usd("m5.large") * 0.92
    )
    assert usd(less.list_snapshot_items(200, 10, 7)) == pytest.approx(11.96, abs=CENT)  # 13.00 x 0.92
    assert "less 8 %" in less.describe_prices() and "%" not in listed.describe_prices()


def test_instance_month_is_730_hours():
    prices = PriceList("us-east-1", "2026-11-21")
    # 730 x 0.384.
    assert usd(prices.list_instance_items("m5.2xlarge")) == pytest.approx(280.32, abs=CENT)
    # Not EBS-optimized by itself: m3.xlarge 0.266 + 0.025 an hour, two items.
    items = PriceList("us-east-1", "2018-08-15").list_instance_items("m3.xlarge")
    assert [round(item["unit_price_usd"], 4) for item in items] == [0.266, 0.025]
    assert usd(items) == pytest.approx(212.43, abs=CENT)  # 730 x 0.291
    assert prices.compute_instance_hour_usd("no.such") is None
    with pytest.raises(InputError, match="no price of it is known"):
        prices.list_instance_items("no.such")


def test_snapshots_hold_all_data_once_and_changes_after():
    prices = PriceList("us-east-1", "2026-11-21")
    items = prices.list_snapshot_items(200, 10, 7)
    # The first of 7 days holds all, 6 hold 10 each.
    assert [item["quantity"] for item in items] == [200.0, 60.0]
    assert usd(items) == pytest.approx(13.00, abs=CENT)  # 260 x 0.05
    assert [item["quantity"] for item in prices.list_snapshot_items(200, 10, 1)] == [200.0]
    for wrong in ((-1, 0, 7), (200, 201, 7), (200, 10, 0), (200, 10, 1.5), (math.nan, 0, 7)):
        with pytest.raises(InputError):
            prices.list_snapshot_items(*wrong)


def test_rates_of_each_type():
    prices = PriceList("us-east-1", "2026-11-21")
    assert prices.find_rates("gp3") == {
        "gib": 0.08,
        "iops": ((3000, 0.005),),
        "mib_s": ((125, 0.04),),
        "million_ios": 0.0,
    }
    assert prices.find_rates("io2")["iops"] == ((0, 0.065), (32_000, 0.0455), (64_000, 0.03185))
    assert prices.find_rates("standard")["million_ios"] == 0.05
    assert prices.find_rates("instance-store")["gib"] == 0.0
    assert PriceList("af-south-1").find_rates("io2") is None  # no io2 in the list of that region
    with pytest.raises(InputError):
        prices.find_rates("gp9")


@given(
    size=st.integers(4, 16_384), iops=st.integers(3_000, 16_000), mib_s=st.integers(125, 1_000), members=st.integers(1, 8),
    discount=st.sampled_from([0.0, 5.0, 12.5]),
)  # fmt: skip
def test_bill_is_the_rates_times_the_quantities(size, iops, mib_s, members, discount):
    # Limits of gp3: 500 IOPS a GiB, 0.25 MiB/s an IOPS.
    size, mib_s = max(size, -(-iops // 500)), min(mib_s, iops // 4)
    prices = PriceList("us-east-1", "2022-06-01", discount_percent=discount)
    rates = prices.find_rates("gp3")
    usd_per_volume = (
        size * rates["gib"] + (iops - 3_000) * rates["iops"][0][1] + max(0, mib_s - 125) * rates["mib_s"][0][1]
    )
    storage = f"{members}xgp3:{size}:{iops}:{max(mib_s, 125)}"
    # Sums of four products: relative error below 10 roundings of 2^-53, so 1e-12 is generous.
    assert prices.compute_volume_totals([storage])[0] == pytest.approx(members * usd_per_volume, rel=1e-12)


def test_totals_are_nan_where_nothing_is_known():
    totals = PriceList("af-south-1").compute_volume_totals(["io2:100:1000", "gp3:1", "nonsense", "gp3:100:1", "gp2:0"])
    assert [math.isnan(total) for total in totals] == [True, False, True, True, True]


def test_knows():
    prices = PriceList("us-east-1", "2026-11-21")
    assert (
        prices.knows("gp3")
        and prices.knows("io2-block-express")
        and prices.knows("instance-store")
        and prices.knows("snapshot")
    )
    assert prices.knows("m5.large") and not prices.knows("m5.nope")
    assert not PriceList("af-south-1").knows("io2")


def test_header_says_what_the_prices_are():
    header = PriceList("us-east-1", "2026-11-21").describe_prices()
    assert header.startswith("On-demand Linux prices for us-east-1 in USD; volume prices last verified between 20")
    seen = core.prices_seen("us-east-1", "2026-11-21")
    assert "instance prices last verified between {} and {}".format(*seen["instances"]) in header


OWN = """
currency = "EUR"
per_usd = 0.9
ebs_discount_percent = 10

[volumes.gp3]
gib = 0.063
iops = 0.0045

[volumes.io2]
iops = [{ above = 0, price = 0.045 }, { above = 1000, price = 0.009 }]

[snapshots]
gib = 0.036

[instances]
"m5.large" = 0.09

[commitment_factors]
reserved-1y = 0.6
"""


def test_own_price_file(tmp_path):
    prices = PriceList("us-east-1", "2026-11-21", price_file=written(tmp_path, OWN), commitment="reserved-1y")
    # Own rates in dollars: gib 0.063 / 0.9 = 0.07, iops 0.0045 / 0.9 = 0.005; MiB/s from the list
    # less 10 %: 0.036. 500 x 0.07 + 3,000 x 0.005 + 125 x 0.036
    assert usd(prices.list_volume_items("gp3:500:6000:250")) == pytest.approx(54.50, abs=CENT)
    # 100 x 0.125 x 0.9 + 1,000 x 0.05 + 500 x 0.01
    assert usd(prices.list_volume_items("io2:100:1500")) == pytest.approx(66.25, abs=CENT)
    # 100 x 0.036 / 0.9.
    assert usd(prices.list_snapshot_items(100, 0, 1)) == pytest.approx(4.00, abs=CENT)
    # An own price of an hour stands as it is; others are on demand x 0.6: 730 x 0.1 and 730 x 0.192
    # x 0.6.
    assert usd(prices.list_instance_items("m5.large")) == pytest.approx(73.00, abs=CENT)
    assert usd(prices.list_instance_items("m5.xlarge")) == pytest.approx(84.10, abs=CENT)
    assert "reserved for 1 year" in prices.list_instance_items("m5.xlarge")[0]["item"]
    assert prices.format_money(10.0) == "9.00 EUR" and prices.currency == "EUR"
    for words in (
        "in EUR",
        "0.9 EUR for 1 USD",
        "volumes less 10 %",
        "reserved for 1 year",
        "5 own rates of prices.toml",
    ):
        assert words in prices.describe_prices()
    assert {item["source"] for item in prices.list_volume_items("gp3:500:6000")} == {"prices.toml"}


def test_own_rate_makes_a_type_known(tmp_path):
    path = written(tmp_path, "[volumes.io2]\ngib = 0.2\niops = 0.1\n")
    prices = PriceList("af-south-1", "2026-11-21", price_file=path)
    assert prices.knows("io2") and prices.knows("io2-block-express")
    # 100 x 0.2 + 1,000 x 0.1.
    assert usd(prices.list_volume_items("io2:100:1000")) == pytest.approx(120.00, abs=CENT)


def test_an_empty_price_file_changes_nothing(tmp_path):
    storages = ["gp3:500:6000:250", "2xio2:500:50000", "standard:100"]
    own = PriceList("us-east-1", price_file=written(tmp_path, "# no rate of our own\n"))
    assert own.compute_volume_totals(storages) == PriceList("us-east-1").compute_volume_totals(storages)


@pytest.mark.parametrize(
    ("text", "where", "rule"),
    [
        ("[volumes.gp3]\ngib = -1", "prices.toml line 2: volumes.gp3.gib", "0 to 1,000,000"),
        ("[volumes.gp3]\ngib = nan", "prices.toml line 2: volumes.gp3.gib", "number"),
        ("[volumes.gp3]\ngib = true", "prices.toml line 2: volumes.gp3.gib", "number"),
        ("[volumes.gp3]\nmibs = 1", "prices.toml line 2: volumes.gp3.mibs", "not a key"),
        ("[volumes.gp2]\niops = 1", "prices.toml line 2: volumes.gp2.iops", "not a key"),
        ("[volumes.gp9]\ngib = 1", "prices.toml line 1: volumes.gp9", "not a key"),
        ("[volumes.instance-store]\ngib = 1", "prices.toml line 1: volumes.instance-store", "not a key"),
        ("\nvolumes.gp3.gib = 'x'", "prices.toml line 2: volumes.gp3.gib", "number"),
        ("volumes = 3", "prices.toml line 1: volumes", "table"),
        ("discount = 3", "prices.toml line 1: discount", "not a key"),
        ("ebs_discount_percent = 100", "prices.toml line 1: ebs_discount_percent", "0 to 99 %"),
        ("currency = 'Euro'", "prices.toml line 1: currency", "three capital letters"),
        ("currency = 'EUR'", "prices.toml line 1: currency", "per_usd"),
        ("currency = 'EUR'\nper_usd = 0", "prices.toml line 2: per_usd", "above 0"),
        ("per_usd = 2", "prices.toml line 1: per_usd", "1 US dollar"),
        ("[instances]\n'm5.larg' = 1", "prices.toml line 2: instances.m5.larg", "not an instance type"),
        ("[commitment_factors]\nreserved-1y = 1.1", "prices.toml line 2: commitment_factors.reserved-1y", "0 to 1"),
        ("[commitment_factors]\non-demand = 1", "prices.toml line 2: commitment_factors.on-demand", "not a key"),
        ("[volumes.io2]\niops = []", "prices.toml line 2: volumes.io2.iops", "lowest quantity first"),
        (
            "[volumes.io2]\niops = [{above = 9, price = 1}, {above = 9, price = 1}]",
            "prices.toml line 2: volumes.io2.iops",
            "lowest",
        ),
        ("[volumes.io2]\niops = [{above = 0}]", "prices.toml line 2: volumes.io2.iops", "price steps"),
        ("[volumes.io2]\ngib = [{above = 0, price = 1}]", "prices.toml line 2: volumes.io2.gib", "number"),
        ("[volumes.gp3\ngib = 1", "line 1", "not valid TOML"),
    ],
)
def test_price_files_are_read_strictly(tmp_path, text, where, rule):
    with pytest.raises(InputError) as caught:
        read_price_file(written(tmp_path, text))
    assert where in caught.value.value and rule in caught.value.rule and caught.value.hint


def test_files_that_are_none(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_price_file(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"currency = '\xe9'")
    with pytest.raises(InputError, match="UTF-8"):
        read_price_file(tmp_path / "latin.toml")


@pytest.mark.parametrize(
    "wrong",
    [{"discount_percent": -1}, {"discount_percent": 100}, {"discount_percent": math.nan}, {"commitment": "reserved-2y"}, {"region": "mars-1"},
     {"as_of": "yesterday"}],
)  # fmt: skip
def test_bad_arguments(wrong):
    with pytest.raises(InputError):
        PriceList(**({"region": "us-east-1"} | wrong))


def test_a_discount_stands_in_one_place(tmp_path):
    path = written(tmp_path, "instance_discount_percent = 5")
    # 0.096 x 0.95.
    assert PriceList(price_file=path).compute_instance_hour_usd("m5.large") == pytest.approx(0.0912)
    with pytest.raises(InputError, match="one place"):
        PriceList(price_file=path, discount_percent=5)


@pytest.mark.parametrize(
    ("commitment", "instance", "day", "month"),
    [
        # m4.xlarge in 2018: 0.20 an hour; 2017-10: 0.62 of it for a year, 0.432 for three. 730 x
        # 0.2 x 0.62 and x 0.432.
        ("reserved-1y", "m4.xlarge", "2018-08-15", 90.52),
        ("reserved-3y", "m4.xlarge", "2018-08-15", 63.07),
        # No row of m5: the general factors. 730 x 0.096 x 0.632 and x 0.438.
        ("reserved-1y", "m5.large", "2026-11-21", 44.29),
        ("savings-1y", "m5.large", "2026-11-21", 44.29),
        ("savings-3y", "m5.large", "2026-11-21", 30.70),
    ],
)
def test_commitments_lower_the_instance_alone(commitment, instance, day, month):
    prices = PriceList("us-east-1", day, commitment=commitment)
    items = prices.list_instance_items(instance)
    assert usd(items) == pytest.approx(month, abs=CENT)
    assert "no upfront" in items[0]["as_of"] and ("not confirmed" in items[0]["as_of"]) == (instance == "m5.large")
    assert "ec2instances-2017-10" in items[0]["source"] and "no upfront" in prices.describe_prices()
    assert prices.compute_volume_totals(["gp2:100"]) == PriceList("us-east-1", day).compute_volume_totals(["gp2:100"])


def test_a_discount_is_off_the_committed_price():
    prices = PriceList("us-east-1", "2026-11-21", commitment="reserved-1y", discount_percent=10)
    # 730 x 0.096 x 0.632 x 0.9 = 39.861...
    assert usd(prices.list_instance_items("m5.large")) == pytest.approx(39.86, abs=CENT)


def test_savings_plans_were_sold_from_a_day_on():
    with pytest.raises(InputError, match="sold since 2019-11-06"):
        PriceList("us-east-1", "2018-08-15", commitment="savings-1y")


def test_regions_without_ebs_prices(tmp_path):
    with pytest.raises(InputError) as caught:
        PriceList("us-gov-west-1")
    assert "EBS" in caught.value.rule and "price file" in caught.value.hint
    own = PriceList(
        "us-gov-west-1", price_file=written(tmp_path, "[volumes.gp3]\ngib = 0.096\niops = 0.006\nmib_s = 0.048\n")
    )
    # 100 x 0.096 + 1,000 x 0.006 + 75 x 0.048: gp3 includes 3,000 IOPS and 125 MiB/s here too.
    assert usd(own.list_volume_items("gp3:100:4000:200")) == pytest.approx(19.20, abs=CENT)
    assert own.knows("gp3") and not own.knows("gp2") and own.find_rates("gp2") is None


def test_unknown_regions_are_listed_not_guessed():
    for other in ("cn-north-1", "us-gov-west-2", "ap-southeast-9"):
        with pytest.raises(InputError) as caught:
            check_region(other)
        assert caught.value.hint.startswith("Known: af-south-1") and "Did you mean" not in caught.value.hint
    with pytest.raises(InputError, match="Did you mean us-east-1"):
        check_region("us-esat-1")


def test_attachments_of_data_and_log_together():
    core.check_attachments(["20xgp3:500", "6xgp3:20"], "m5.large")  # 26 and the root volume are 27
    with pytest.raises(core.CoreError, match="27 EBS volumes"):
        core.check_attachments(["20xgp3:500", "7xgp3:20"], "m5.large")
    with pytest.raises(core.CoreError, match="100 are asked for"):
        core.storage_limits("100xgp3:500", None, "m5.large")
    assert len(core.storage_limits("100xgp3:500")) == 100


def test_months():
    assert HOURS_PER_MONTH == 365 * 24 / 12
