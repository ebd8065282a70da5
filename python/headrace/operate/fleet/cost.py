"""Computes what volumes cost a month: at list prices, or at the rates of a Cost and Usage Report.

A report (CUR 2.0, Parquet or CSV) has rates, not bills: its rows are hours of one month, also of
volumes that were made or changed within it. So the price of a GiB, an IOPS and a MiB/s is read from
it, and the bill of a whole month, of today's volume and of a proposed one alike, is computed with
these rates by the rules of the catalog. Each item of a volume type has its own rate. If the report
has no row of an item, its list price is taken, with a note. The search for what to advise and the
bills use the same table.

Discounts that the report states as rows are taken off; credits, refunds, fees and tax are not part
of a rate, because they end or follow it, and give a note.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.base.files import get_hint, get_reason, make_path, refuse_folder, shorten_name
from headrace.base.units import format_percent
from headrace.catalog.price_list import PriceList
from headrace.errors import CouldNotRun, HeadraceError, Refusals

if TYPE_CHECKING:
    from collections.abc import Mapping

refuse = Refusals("docs/guide/fleet-changes.md")
refuse_export = Refusals("docs.aws.amazon.com/cur/latest/userguide/table-dictionary-cur2.html")
# Columns of CUR 2.0 that are needed, and those that are used if a report has them.
NEEDED = {
    "bill_billing_period_start_date": pl.String,
    "line_item_line_item_type": pl.String,
    "line_item_resource_id": pl.String,
    "line_item_usage_type": pl.String,
    "line_item_usage_amount": pl.Float64,
    "line_item_unblended_cost": pl.Float64,
}
OPTIONAL = {"line_item_usage_account_id": pl.String, "line_item_currency_code": pl.String}
# Cost after discounts, if the account has some (CUR 2.0): summed over usage and discounts it is the
# invoice, so it takes the place of the unblended cost of both.
NET = "line_item_net_unblended_cost"
# Types of line items (CUR 2.0, line_item_line_item_type): usage, and discounts on it.
USAGE = ("Usage", "DiscountedUsage", "SavingsPlanCoveredUsage")
DISCOUNTS = ("BundledDiscount", "Discount", "EdpDiscount", "PrivateRateDiscount", "RiVolumeDiscount", "SppDiscount")
# A usage type of a volume: a region's prefix (none in us-east-1), the kind, a volume type (none:
# magnetic), a tier of io2. From the usage types in AWS's price list.
USAGE_TYPE = re.compile(
    r"(?:[A-Z0-9]+-)?EBS:(?P<kind>VolumeUsage|VolumeP-IOPS|VolumeP-Throughput|VolumeIOUsage)"
    r"(?:\.(?P<type>piops|gp2|gp3|io2|st1|sc1))?(?:\.(?P<tier>tier[123]))?\Z"
)
COMPONENTS = {
    "VolumeUsage": "storage",
    "VolumeP-IOPS": "iops",
    "VolumeP-Throughput": "throughput",
    "VolumeIOUsage": "million_ios",
}
# Catalog units in a unit of the report: throughput is billed in GiB/s, I/Os singly.
UNITS = {"throughput": 1024.0, "million_ios": 1e-6}
TIERS = {"": 0, "tier1": 0, "tier2": 1, "tier3": 2}  # which step of the price, lowest first
# Items in words, in the order in which they are listed.
ITEMS = {"storage": "GiB", "iops": "IOPS", "throughput": "MiB/s", "million_ios": "I/Os"}
# A rate this near the list price is the list price: hours of a month are summed in binary
# fractions, and AWS rounds costs to ten digits. Ours.
AS_LISTED = 1e-4


@dataclass(frozen=True)
class VolumeBill:
    """The bill of a month. `items`: as `PriceList.list_volume_items`."""

    storage: str
    items: tuple[core.CostItem, ...]

    @property
    def usd(self) -> float:
        return sum(item["usd"] for item in self.items)


@dataclass(frozen=True)
class PaidRate:
    """The price that an account paid for an item of a volume type: `usd` for an `amount` in the
    catalog's units and months. `step`: of a price in steps, from 0."""

    account: str
    product: str
    component: str
    step: int
    amount: float
    usd: float


@dataclass(frozen=True, eq=False)
class PriceTable:
    """The prices that an account pays in a region: `table` as the core takes it. `words`: which
    items are at the account's own rates and which at list prices, in words; "" where all are of one
    source."""

    region: str
    account: str
    table: core.RegionPrices
    words: str = ""


@dataclass(frozen=True)
class CostReport:
    """The figures of a Cost and Usage Report on volumes. `month`: `2026-10`. `billed`: US dollars
    of each volume in that month, discounts taken off. `notes`: what is not part of a rate."""

    month: str
    rates: tuple[tuple[str, PaidRate], ...]  # by region, where the inventory knows it
    billed: dict[str, float]
    notes: tuple[str, ...]


@dataclass
class FleetPrices:
    """Prices of all regions of a fleet: list prices, or the paid rates of a report.

    `discount_percent`, `price_file`: as of `PriceList`, and only without a report, which says what
    was paid. Raises InputError where they break a rule.
    """

    as_of: str | None = None
    discount_percent: float = 0.0
    price_file: str | Path | None = None
    report: CostReport | None = None
    _lists: dict[str, PriceList] = field(default_factory=dict, repr=False)
    _tables: dict[tuple[str, str], PriceTable] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.report is not None and (self.discount_percent or self.price_file is not None):
            rule = "a cost report says what was paid, so no discount or price file can be given with it"
            raise refuse.input("discount and cost report", rule, "Leave one of them out.")

    @property
    def source(self) -> str:
        """The source of the prices in words, for the head of a report."""
        if self.report is not None:
            return f"rates of the Cost and Usage Report of {self.report.month}"
        lists = [self._lists[region] for region in sorted(self._lists)]
        if len(lists) == 1:
            return lists[0].describe_prices(instances=False)
        less = f", less {self.discount_percent:g} %" if self.discount_percent else ""
        own = f", with the rates of {Path(self.price_file).name}" if self.price_file is not None else ""
        return f"list prices of {len(lists)} regions{less}{own}"

    def compute_bill(self, storage: str, region: str, account: str = "", million_ios: float = 0.0) -> VolumeBill:
        """Returns a storage's bill of a month. `million_ios`: I/Os of the month that are billed, in
        millions. Raises InputError where a price is not known."""
        with translate_core_errors():
            items = core.monthly_cost(storage, region, self.as_of, million_ios, self.get_table(region, account).table)
        return VolumeBill(storage, tuple(items))

    def compute_totals(
        self, storages: Sequence[str], region: str, account: str = "", million_ios: float = 0.0
    ) -> list[float]:
        """Returns the bills of many storages, USD a month each; NaN where a price is unknown or
        none is sold. `million_ios`: I/Os of the month that are billed, in millions."""
        with translate_core_errors():
            table = self.get_table(region, account).table
            return core.monthly_totals(list(storages), region, self.as_of, million_ios, table)

    def list_tables(self, places: Iterable[tuple[str, str]]) -> tuple[PriceTable, ...]:
        """Returns the tables of pairs of region and account; regions without EBS prices are left
        out."""
        tables = []
        for region, account in sorted(set(places)):
            try:
                PriceList(region, self.as_of)
            except HeadraceError:  # the region has no prices; faults of the price file are raised below
                continue
            tables.append(self.get_table(region, account))
        return tuple(tables)

    def _get_price_list(self, region: str) -> PriceList:
        """Returns the price list of a region, made once. Raises InputError."""
        if region not in self._lists:
            self._lists[region] = PriceList(
                region, self.as_of, discount_percent=self.discount_percent, price_file=self.price_file
            )
        return self._lists[region]

    def get_table(self, region: str, account: str = "") -> PriceTable:
        """Returns the prices of a region that the account pays, made once. Raises InputError."""
        key = (region, account)
        if key not in self._tables:
            listed = self._get_price_list(region).table
            table = PriceTable(region, account, listed)
            self._tables[key] = table if self.report is None else self._apply_paid_rates(listed, region, account)
        return self._tables[key]

    def _apply_paid_rates(self, listed: core.RegionPrices, region: str, account: str) -> PriceTable:
        """Returns the listed prices, replaced by the rates that the account paid where it paid."""
        assert self.report is not None
        here = [rate for rate_region, rate in self.report.rates if rate_region == region]
        own = _compute_rates(rate for rate in here if rate.account == account)
        # Rates of another account in the report are nearer to this account's than list prices are.
        paid = _compute_rates(here) | own
        source = f"Cost and Usage Report of {self.report.month}"
        steps = _index_steps(listed["items"])
        rows: list[core.PriceItem] = [
            {**row, "usd": paid[key], "source": source} if key in paid else row for key, row in steps.items()
        ]
        factors = {key: paid[key] / row["usd"] for key, row in steps.items() if key in paid and row["usd"] > 0.0}
        payer = f"account {account}" if own and account else "all accounts of the report"
        others = {key for key in paid if own and key not in own}
        words = f"{region}, {payer}: {_describe_factors(factors, steps, others)}"
        return PriceTable(region, account, {**listed, "items": rows}, words)


# --- the report --------------------------------------------------


def read_cost_report(
    files: Iterable[str | PathLike[str]], regions: dict[str, str], accounts: dict[str, str] | None = None
) -> CostReport:
    """Reads what a CUR 2.0 (its files of one month, Parquet or CSV) says of volumes.

    `regions`: of each volume, by id, from the inventory; rows of other volumes tell no rate.
    `accounts`: the account by which the inventory knows each volume, where it does. Raises
    InputError and CouldNotRun.
    """
    return _Report([make_path(file) for file in files]).read(regions, accounts or {})


class _Report:
    def __init__(self, paths: Sequence[Path]) -> None:
        """Raises InputError without a file."""
        if not paths:
            raise refuse.input("the cost report", "names no file", "Name its Parquet or CSV files.")
        self.paths = paths
        self.name = shorten_name(paths[0].name)

    @cached_property
    def rows(self) -> pl.DataFrame:
        """The rows of all files that are about EBS volumes, or about no usage."""
        return pl.concat([self._read_file(path) for path in self.paths])

    def _read_file(self, path: Path) -> pl.DataFrame:
        """Reads the rows of a file that are on EBS volumes, or on no usage, with the columns of
        NEEDED, OPTIONAL and NET. Raises InputError for what is not a CUR 2.0, and CouldNotRun for
        what cannot be read."""
        refuse_folder(path)
        try:
            parquet = path.suffix.lower() == ".parquet"
            scan = pl.scan_parquet(path) if parquet else pl.scan_csv(path, infer_schema=False)
            names = scan.collect_schema().names()
            missing = [column for column in NEEDED if column not in names]
            if missing:
                old = any(column.startswith("lineItem/") for column in names)
                hint = (
                    "This is the older CUR: make a data export of CUR 2.0."
                    if old
                    else "Export CUR 2.0 with resource ids."
                )
                raise refuse_export.input(f"{shorten_name(path.name)}: {missing[0]}", "this column is needed", hint)
            columns = [
                pl.col(name).cast(kind, strict=True) if name in names else pl.lit("", kind).alias(name)
                for name, kind in (NEEDED | OPTIONAL).items()
            ]
            net = pl.col(NET).cast(pl.Float64, strict=True) if NET in names else pl.lit(None, pl.Float64).alias(NET)
            columns.append(net)
            used = pl.col("line_item_usage_type").str.contains("EBS:Volume", literal=True)
            other = pl.col("line_item_line_item_type").is_in([*USAGE, *DISCOUNTS]).not_()
            return scan.select(columns).filter(used | other).collect()
        except (OSError, pl.exceptions.ComputeError, pl.exceptions.PolarsError) as error:
            if isinstance(error, OSError):
                hint = get_hint(error, "Check the name.")
                raise CouldNotRun(shorten_name(path), f"cannot be read: {get_reason(error)}", "", hint) from None
            rule = f"is not a table of a cost report: {str(error).splitlines()[0][:120]}"
            raise refuse_export.input(shorten_name(path.name), rule, "Give the export as Parquet or CSV.") from None

    def read(self, regions: dict[str, str], accounts: dict[str, str]) -> CostReport:
        """Returns rates and bills of the latest month in the files. `regions`, `accounts`: by
        volume id. Raises InputError for another currency, no usage, or usage below 0."""
        rows, notes = self.rows, []
        currencies = set(rows["line_item_currency_code"].drop_nulls().to_list()) - {"", "USD"}
        if currencies:
            rule = "rates are read in US dollars, as AWS lists its prices"
            raise refuse.input(f"{self.name}: currency {sorted(currencies)[0]}", rule, "Use a price file instead.")
        rows, month = self._select_month(rows, notes)
        kinds = rows.select(pl.col("line_item_usage_type").unique().drop_nulls()).to_series().to_list()
        kinds_of = {text: kind for text in kinds if (kind := _parse_usage_type(text))}
        about = pl.col("line_item_usage_type").is_in(list(kinds_of))
        used = rows.filter(about & pl.col("line_item_line_item_type").is_in([*USAGE, *DISCOUNTS]))
        self._note_rest(rows.filter(pl.col("line_item_line_item_type").is_in([*USAGE, *DISCOUNTS]).not_()), notes)
        usage = used.filter(pl.col("line_item_line_item_type").is_in(USAGE))
        if usage.is_empty():
            types = ", ".join(sorted(set(rows["line_item_line_item_type"].drop_nulls()))) or "no rows"
            rule = "has no usage of EBS volumes, so it tells no rate"
            raise refuse.input(f"{self.name} of {month}: {types}", rule, "Give the export of a month with usage.")
        if usage.filter(pl.col("line_item_usage_amount") < 0.0).height:
            raise refuse_export.input(f"{self.name}: usage below 0", "usage cannot be negative", "Export it again.")
        return self._build_report(used, kinds_of, regions, accounts, month, notes)

    def _build_report(
        self,
        used: pl.DataFrame,
        kinds_of: Mapping[str, tuple[str, str, int]],
        regions: Mapping[str, str],
        accounts: Mapping[str, str],
        month: str,
        notes: list[str],
    ) -> CostReport:
        """Sums up usage and cost, discounts taken off, into rates and into USD of each volume in
        the month. `kinds_of`: product, component and price step by usage type; `notes` gets what is
        left out. Raises InputError if no row is of the inventory's volumes."""
        is_usage = pl.col("line_item_line_item_type").is_in(USAGE)
        amount = pl.col("line_item_usage_amount").filter(is_usage).sum()
        keys = ["line_item_resource_id", "line_item_usage_account_id", "line_item_usage_type"]
        # A net cost of usage already contains its discounts.
        net = (is_usage & pl.col(NET).is_not_null()).any().over(keys)
        cost = pl.when(net).then(pl.col(NET).fill_null(0.0)).otherwise("line_item_unblended_cost")
        used = used.with_columns(cost.alias("line_item_unblended_cost"))
        sums = used.group_by(keys, maintain_order=True).agg(amount, pl.col("line_item_unblended_cost").sum())
        rates: dict[tuple[str, str, str, str, int], tuple[float, float]] = {}
        billed: dict[str, float] = {}
        foreign = sums.height
        for resource, account, kind, quantity, usd in sums.iter_rows():
            volume = (resource or "").rpartition("/")[2]
            if volume not in regions:
                continue
            product, component, step = kinds_of[kind]
            billed[volume] = billed.get(volume, 0.0) + usd
            units = quantity * UNITS.get(component, 1.0)
            rate = (regions[volume], accounts.get(volume) or account or "", product, component, step)
            earlier_units, earlier_usd = rates.get(rate, (0.0, 0.0))
            rates[rate] = (earlier_units + units, earlier_usd + usd)
            foreign -= 1
        if foreign:
            notes.append(f"{foreign} items of volumes that are not in the inventory are left out.")
        lacking = len(set(regions) - set(billed))
        if lacking:
            notes.append(
                f"{lacking} volumes of the inventory are not in the report: their bills are made at its rates."
            )
        if not rates:
            rule = "has none of the inventory's volumes"
            raise refuse.input(f"{self.name} of {month}", rule, "Give the report of the same accounts and time.")
        paid_rates = [(key[0], PaidRate(*key[1:], units, usd)) for key, (units, usd) in rates.items()]
        return CostReport(month, tuple(paid_rates), billed, tuple(notes))

    def _select_month(self, rows: pl.DataFrame, notes: list[str]) -> tuple[pl.DataFrame, str]:
        """Returns the rows of the latest month, and the month as `2026-10`; `notes` gets the
        others. Raises InputError without rows."""
        months = rows["bill_billing_period_start_date"].str.slice(0, 7).drop_nulls().unique().sort().to_list()
        if not months:
            raise refuse.input(f"{self.name}", "has no rows of EBS volumes", "Give the export of a month with usage.")
        if len(months) > 1:
            notes.append(f"The report has months {', '.join(months)}: the last is taken.")
        return rows.filter(pl.col("bill_billing_period_start_date").str.slice(0, 7) == months[-1]), months[-1]

    def _note_rest(self, rows: pl.DataFrame, notes: list[str]) -> None:
        """Adds to `notes` the sums of rows that are not usage: credits, refunds, tax, fees."""
        sums = rows.group_by("line_item_line_item_type").agg(pl.col("line_item_unblended_cost").sum())
        for kind, usd in sorted(sums.iter_rows()):
            notes.append(f"{kind} of {usd:,.2f} USD is not part of a rate: it ends, or follows what is used.")


def _parse_usage_type(usage_type: str) -> tuple[str, str, int] | None:
    """Returns product, component and price step of a usage type; None if not a volume's."""
    match = USAGE_TYPE.match(usage_type)
    if match is None:
        return None
    product = {"piops": "io1", None: "standard"}.get(match["type"], match["type"])
    return product, COMPONENTS[match["kind"]], TIERS[match["tier"] or ""]


def _describe_factors(
    factors: dict[tuple[str, str, int], float],
    steps: Iterable[tuple[str, str, int]],
    others: Collection[tuple[str, str, int]],
) -> str:
    """Returns in words which items are at the account's own rates, which (`others`) at those of
    other accounts, with their distance from the list price, and which are at list prices."""

    def describe_item(key: tuple[str, str, int]) -> str:
        return f"{key[0]} {ITEMS[key[1]]}" + (f" (step {key[2] + 1})" if key[2] else "")

    def describe_factor(factor: float) -> str:
        share = factor - 1.0
        if abs(share) <= AS_LISTED:
            return "as listed"
        return f"{format_percent(abs(share), 1)} {'below' if share < 0 else 'above'} list"

    volumes = [key for key in steps if key[1] in ITEMS and key[0] != "snapshot"]
    volumes.sort(key=lambda key: (key[0], list(ITEMS).index(key[1]), key[2]))
    paid = [
        (key in others, f"{describe_item(key)} ({describe_factor(factors[key])})") for key in volumes if key in factors
    ]
    own, of_others = ([text for other, text in paid if other == whose] for whose in (False, True))
    listed = [describe_item(key) for key in volumes if key not in factors]
    parts = [f"own rates of {', '.join(own)}"] if own else []
    parts += [f"rates of other accounts of {', '.join(of_others)}"] if of_others else []
    lower = any(factor < 1.0 - AS_LISTED for factor in factors.values())
    doubt = " (a discount on all usage would lower these too)" if lower else ""
    parts += [f"list prices of {', '.join(listed)}, which the report does not have{doubt}"] if listed else []
    return "; ".join(parts)


def _compute_rates(rates: Iterable[PaidRate]) -> dict[tuple[str, str, int], float]:
    """Returns USD a unit by product, component and price step, of those that were used."""
    return {key: usd / amount for key, (amount, usd) in _sum_by_item(rates).items() if amount > 0.0}


def _sum_by_item(rates: Iterable[PaidRate]) -> dict[tuple[str, str, int], tuple[float, float]]:
    """Returns amount (in the catalog's units and months) and USD of each kind of usage, by product,
    component and price step."""
    totals: dict[tuple[str, str, int], tuple[float, float]] = {}
    for rate in rates:
        key = (rate.product, rate.component, rate.step)
        amount, usd = totals.get(key, (0.0, 0.0))
        totals[key] = (amount + rate.amount, usd + rate.usd)
    return totals


def _index_steps(listed: Sequence[core.PriceItem]) -> dict[tuple[str, str, int], core.PriceItem]:
    """Returns the rows of a price table by product, component and step, lowest quantity first."""
    rows: dict[tuple[str, str, int], core.PriceItem] = {}
    for row in sorted(listed, key=lambda row: (row["product"], row["component"], row["from_quantity"])):
        step = sum(key[:2] == (row["product"], row["component"]) for key in rows)
        rows[row["product"], row["component"], step] = row
    return rows
