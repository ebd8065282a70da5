"""Computes every price that a plan uses: the catalog's list prices of a region on a day, less a
discount, with own rates and commitments.

All figures are US dollars, because AWS lists its prices so. A price file may state its rates in
another currency with what a dollar costs in it (`per_usd`); they are turned into dollars here, and
`PriceList.money` prints an amount in that currency. The rules by which storage is billed stand in
the crates (crates/catalog/src/price.rs); this file only changes the rates it is billed at.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec

from headrace.base import core
from headrace.base.checks import check_choice, check_number, check_whole, quote_value, suggest_nearest
from headrace.base.core import translate_core_errors
from headrace.base.documents import DocumentTable, annotate_rule, convert, refuse_unknown_keys
from headrace.base.files import read_bytes
from headrace.base.units import HOURS_PER_MONTH, Day, describe_days, normalise_day
from headrace.catalog.facts import check_region, make_price_refusal
from headrace.errors import InputError, Refusals

# Ways to pay for an instance's hour, and their words.
COMMITMENTS = {
    "on-demand": "on demand",
    "reserved-1y": "reserved for 1 year",
    "reserved-3y": "reserved for 3 years",
    "savings-1y": "by a savings plan of 1 year",
    "savings-3y": "by a savings plan of 3 years",
}
refuse = Refusals("docs/reference/prices.md")
MAX_FILE_BYTES = 1024 * 1024
# Highest price of a unit for a month or an hour: far above any, and small enough that no bill
# overflows.
MAX_PRICE = 1e6
MAX_DISCOUNT_PERCENT = 99.0  # ours: at 100 % all prices would be equal
MAX_GIB = 1024.0 * 1024.0
# The catalog's components as `rates` and the price file name them.
RATES = {"storage": "gib", "iops": "iops", "throughput": "mib_s", "million_ios": "million_ios"}
# Source: rules.toml, snapshot_storage.incremental (the AWS whitepaper of 2017).
SNAPSHOT_RULE = (
    "One snapshot a day is kept for each of the days. Snapshots are incremental: the oldest kept holds all data once, each later one the "
    "blocks that changed since the one before."
)

Steps = tuple[tuple[int, float], ...]
CORRECT = "Correct it, or leave the key out."


# --- the price file -------------------------------------------------------------------------------


@dataclass(frozen=True)
class PriceFile:
    """An own price file, checked and in US dollars. See docs/reference/prices.md."""

    name: str
    currency: str = "USD"
    per_usd: float = 1.0
    ebs_discount_percent: float | None = None
    instance_discount_percent: float | None = None
    volumes: dict[str, dict[str, float | Steps]] = field(default_factory=dict)
    snapshot_gib: float | None = None
    instances: dict[str, float] = field(default_factory=dict)
    commitment_factors: dict[str, float] = field(default_factory=dict)

    @property
    def own_rates(self) -> int:
        """Returns the number of prices that the file states."""
        return (
            sum(len(rates) for rates in self.volumes.values()) + (self.snapshot_gib is not None) + len(self.instances)
        )


def _annotate_most(most: float, unit: str = "") -> msgspec.Meta:
    """Returns the annotation of a number from 0 to `most`."""
    rule = f"must be a number from 0 to {most:,.0f} {unit}".rstrip()
    return msgspec.Meta(ge=0.0, le=most, extra={"rule": rule, "hint": CORRECT})


_Price = Annotated[float, _annotate_most(MAX_PRICE)]
_Discount = Annotated[float, _annotate_most(MAX_DISCOUNT_PERCENT, "%")]
_Currency = annotate_rule(
    "must be a currency code of three capital letters (ISO 4217)", "For example USD or EUR.", pattern=r"\A[A-Z]{3}\Z"
)


class _Rates(DocumentTable):
    """[volumes.TYPE] as it is written."""

    gib: _Price | None = None
    iops: _Price | list | None = None
    mib_s: _Price | list | None = None
    million_ios: _Price | None = None


class _Snapshots(DocumentTable):
    """[snapshots] as it is written."""

    gib: _Price | None = None


class _Table(DocumentTable):
    """A price file as it is written."""

    currency: Annotated[str, _Currency] = "USD"
    per_usd: _Price | None = None
    ebs_discount_percent: _Discount | None = None
    instance_discount_percent: _Discount | None = None
    volumes: dict[str, _Rates] = {}
    snapshots: _Snapshots = msgspec.field(default_factory=_Snapshots)
    instances: dict[str, _Price] = {}
    commitment_factors: dict[str, Annotated[float, _annotate_most(1.0)]] = {}


def read_price_file(path: str | Path) -> PriceFile:
    """Returns the checked rates of a price file. Raises InputError, which names file, line and key,
    and CouldNotRun if the file cannot be read."""
    path = Path(path)
    try:
        text = read_bytes(path, MAX_FILE_BYTES).decode("utf-8-sig")
        document = tomllib.loads(text)
    except UnicodeDecodeError as error:
        value = f"{path.name}: byte {error.start}"
        raise refuse.input(value, "a price file is UTF-8 text", "Save it as UTF-8.") from None
    except (ValueError, RecursionError) as error:
        value = f"{path.name}: {str(error)[:120]}"
        raise InputError(value, "is not valid TOML", "toml.io, v1.0", "Correct the line named.") from None
    try:
        return _check_rates(path.name, convert(document, _Table, source=refuse.source, where="a price file"))
    except InputError as error:
        key, equals, value = error.value.partition(" = ")
        raise error.amend(
            value=f"{_locate_key(path.name, text, key)}{equals}{value}", hint=error.hint or CORRECT
        ) from None


def _check_rates(name: str, table: _Table) -> PriceFile:
    """Returns the rates of a price file in US dollars. Raises InputError for a volume type,
    component, commitment or instance that the catalog does not have."""
    per_usd = _read_usd_price(table)
    answers = (core.billed_as(era["volume_type"]) for era in core.volume_eras(all_eras=True))
    billed = {product: components for product, components in filter(None, answers)}
    refuse_unknown_keys(table.volumes, sorted(billed), "a price file", refuse.source, "volumes")
    refuse_unknown_keys(
        table.commitment_factors, [*COMMITMENTS][1:], "a price file", refuse.source, "commitment_factors"
    )
    names = {item["instance_type"] for item in core.instances(None)}
    for instance, price in table.instances.items():
        if instance not in names:
            hint = suggest_nearest(instance, names) or "See `headrace catalog instances`."
            raise refuse.input(f"instances.{instance} = {price:g}", "is not an instance type of the catalog", hint)
    volumes: dict[str, dict[str, float | Steps]] = {}
    for kind, rates in table.volumes.items():
        given = {key: rate for key, rate in msgspec.structs.asdict(rates).items() if rate is not None}
        refuse_unknown_keys(
            given, [RATES[component] for component in billed[kind]], "a price file", refuse.source, f"volumes.{kind}"
        )
        volumes[kind] = {
            key: _read_steps(f"volumes.{kind}.{key}", rate, per_usd) if isinstance(rate, list) else rate / per_usd
            for key, rate in given.items()
        }
    return PriceFile(
        name,
        table.currency,
        per_usd,
        table.ebs_discount_percent,
        table.instance_discount_percent,
        volumes,
        None if table.snapshots.gib is None else table.snapshots.gib / per_usd,
        {instance: price / per_usd for instance, price in table.instances.items()},
        table.commitment_factors,
    )


def _read_usd_price(table: _Table) -> float:
    """Returns the price of one US dollar in the file's currency. Raises InputError if it is missing
    or wrong."""
    code, per_usd = table.currency, table.per_usd
    if per_usd is None and code != "USD":
        rule = "needs per_usd too: AWS lists its prices in US dollars"
        raise refuse.input(f"currency = {quote_value(code)}", rule, f"Add per_usd, what one US dollar costs in {code}.")
    if per_usd == 0.0 or (code == "USD" and per_usd not in (None, 1.0)):
        rule = "must be above 0" if per_usd == 0.0 else "a US dollar costs 1 US dollar"
        raise refuse.input(f"per_usd = {quote_value(per_usd)}", rule, f"State what one US dollar costs in {code}.")
    return per_usd or 1.0


def _read_steps(place: str, value: list, per_usd: float) -> Steps:
    """Returns the steps of a price, pairs of the quantity above which it holds and US dollars.
    Raises InputError."""
    rule = "price steps are tables { above = QUANTITY, price = PRICE }, lowest quantity first"
    steps: list[tuple[int, float]] = []
    for step in value:
        if not isinstance(step, dict) or set(step) != {"above", "price"}:
            hint = "For example [{ above = 0, price = 0.065 }, { above = 32000, price = 0.0455 }]."
            raise refuse.input(f"{place} = {quote_value(step)}", rule, hint)
        above, least = step["above"], steps[-1][0] + 1 if steps else 0
        if isinstance(above, bool) or not isinstance(above, int) or not least <= above <= 10**9:
            raise refuse.input(f"{place} = {quote_value(above)}", rule, "Quantities are whole, 0 or more, and rise.")
        steps.append((above, convert(step["price"], _Price, source=refuse.source, at=place) / per_usd))
    if not steps:
        raise refuse.input(f"{place} = {quote_value(value)}", rule, "Give one step or more, or one price.")
    return tuple(steps)


def _locate_key(name: str, text: str, path: str) -> str:
    """Returns the place of a key in a price file, such as `prices.toml line 7: volumes.gp3.gib`;
    without a line if the key is not found."""
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[([^\[\]]+)\]", line):
            section = header[1].replace('"', "").replace(" ", "")
            if section == path:
                return f"{name} line {number}: {path}"
        item = re.match(r"\s*([\w.\-\"' ]+?)\s*=", line)
        if item and f"{section}.{re.sub(r'[^-.0-9A-Za-z_]', '', item[1])}".lstrip(".") == path:
            return f"{name} line {number}: {path}"
    return f"{name}: {path}"


# --- the prices -----------------------------------------------------------------------------------


class PriceList:
    """The prices of storage, snapshots and instances in a region on a day, in US dollars, for a
    customer with this discount and these rates.

    `as_of`: ISO day (None: the newest known). `discount_percent`: off every list price of AWS,
    committed ones too; own rates of `price_file` stand as they are. `commitment`: one of
    COMMITMENTS; a factor on the instance's hour, never on storage. Raises InputError for a region,
    day, discount, commitment or file that breaks a rule.
    """

    def __init__(
        self,
        region: str = "us-east-1",
        as_of: Day = None,
        *,
        discount_percent: float = 0.0,
        price_file: str | Path | None = None,
        commitment: str = "on-demand",
    ) -> None:
        """Reads the region's prices of the day and applies discount and own rates to them."""
        self.commitment: str = check_choice("commitment", commitment, COMMITMENTS, refuse)
        self.region = check_region(region)
        with translate_core_errors():
            listed = core.volume_prices(self.region, normalise_day(as_of))
        self.as_of: str = listed["as_of"]
        self.file = None if price_file is None else read_price_file(price_file)
        self.ebs_discount_percent, self.instance_discount_percent = self._choose_discounts(discount_percent)
        if commitment != "on-demand":
            self._find_commitment_factor("*")  # refuses a day before it was sold
        self._table: core.RegionPrices = {**listed, "items": self._apply_rates(listed["items"])}
        if not self._table["items"]:
            raise make_price_refusal(self.region)
        self._hours: dict[str, tuple[dict, ...]] = {}

    def _choose_discounts(self, discount_percent: float) -> tuple[float, float]:
        """Returns the discounts on volumes and on instances, percent: `discount_percent`, or those
        of the price file. Raises InputError for both."""
        percent = check_number("discount_percent", discount_percent, 0.0, MAX_DISCOUNT_PERCENT, "%")
        if self.file is None:
            return percent, percent
        own = (self.file.ebs_discount_percent, self.file.instance_discount_percent)
        if percent and own != (None, None):
            rule = f"{self.file.name} states a discount too"
            raise refuse.input(f"discount of {percent:g} %", rule, "Give it in one place.")
        ebs, instances = (percent if value is None else value for value in own)
        return ebs, instances

    def _apply_rates(self, listed: Sequence[core.PriceItem]) -> list[core.PriceItem]:
        """Returns the rows of the region's price table less the discount, with those of the price
        file in place of the listed ones."""
        factor = 1.0 - self.ebs_discount_percent / 100.0
        rows: list[core.PriceItem] = [{**row, "usd": row["usd"] * factor} for row in listed]
        if self.file is None:
            return rows
        own = [
            (product, component, self._make_steps(product, component, rates[RATES[component]], rows))
            for product, rates in self.file.volumes.items()
            for component in (core.billed_as(product) or ("", ()))[1]
            if RATES[component] in rates
        ]
        if self.file.snapshot_gib is not None:
            own.append(("snapshot", "storage", ((0, self.file.snapshot_gib),)))
        for product, component, steps in own:
            rows = [row for row in rows if (row["product"], row["component"]) != (product, component)]
            rows += [_make_own_row(product, component, above, usd, self.file.name) for above, usd in steps]
        return rows

    def _make_steps(self, product: str, component: str, rate: float | Steps, rows: Sequence[core.PriceItem]) -> Steps:
        """Returns the steps of a rate of the price file; a single price holds above the quantity
        that is included."""
        if isinstance(rate, tuple):
            return rate
        listed = [row["from_quantity"] for row in rows if (row["product"], row["component"]) == (product, component)]
        if listed:
            return ((min(listed), rate),)
        era = next((era for era in core.volume_eras(self.as_of) if era["volume_type"] == product), None)
        rule, key = {"iops": ("iops", "included"), "throughput": ("throughput", "included_mib_s")}.get(
            component, ("iops", "")
        )
        return ((era[rule].get(key, {}).get("value", 0) if era and key else 0, rate),)

    # --- in words ---------------------------------------------------------------------------------

    @property
    def currency(self) -> str:
        """Returns the code of the price file's currency, `USD` without a file. Figures are US
        dollars all the same: `format_money` converts."""
        return "USD" if self.file is None else self.file.currency

    def format_money(self, usd: float) -> str:
        """Returns an amount of US dollars in the price file's currency, such as `1,234.50 USD`."""
        return f"{usd * (1.0 if self.file is None else self.file.per_usd):,.2f} {self.currency}"

    def describe_prices(self, instances: bool = True) -> str:
        """Returns the description of these prices for the head of a report: region, currency, days
        of verification, discounts, commitment and own rates; without `instances` for volumes
        alone."""
        seen = core.prices_seen(self.region, self.as_of)
        spans = {"volume": seen["volumes"]} | ({"instance": seen["instances"]} if instances else {})
        parts = [f"{'On-demand Linux' if instances else 'List'} prices for {self.region} in {self.currency}"]
        parts += [f"{what} prices last verified {describe_days(*span)}" for what, span in spans.items() if span]
        parts += [f"no {what} price is known for this region" for what, span in spans.items() if not span]
        parts += self._describe_discounts()
        if instances and self.commitment != "on-demand":
            own = self.file is not None and self.commitment in self.file.commitment_factors
            factors = "own factor" if own else "no upfront; the factor stands in the bill"
            parts.append(f"instances {COMMITMENTS[self.commitment]} ({factors})")
        if self.file is not None:
            rates = self.file.own_rates
            parts.append(f"{rates} own rate{'s' if rates != 1 else ''} of {self.file.name}")
            if self.currency != "USD":
                parts.append(f"{self.file.per_usd:g} {self.currency} for 1 USD")
        return "; ".join(parts)

    def _describe_discounts(self) -> list[str]:
        """Returns the discounts in words: one text if both are equal, none for 0 %."""
        ebs, instances = self.ebs_discount_percent, self.instance_discount_percent
        if ebs == instances:
            return [f"less {ebs:g} %"] if ebs else []
        return [
            f"{what} less {percent:g} %" for what, percent in (("volumes", ebs), ("instances", instances)) if percent
        ]

    # --- storage ----------------------------------------------------------------------------------

    @property
    def table(self) -> core.RegionPrices:
        """Returns the region's prices of storage at the rates to be paid, as the core takes
        them."""
        return self._table

    def knows(self, product: str) -> bool:
        """Returns whether all parts of the bill of a volume type, of `snapshot`, or of an instance
        type (`m5.large`) have a price."""
        if "." in product:
            return bool(self._list_hourly_items(product))
        if product == "snapshot":
            return bool(self._select_rows("snapshot", "storage"))
        return not self._list_missing_rates(product)

    def _list_missing_rates(self, volume_type: str) -> list[str]:
        """Returns the names, as in a price file, of a volume type's rates without a price."""
        with translate_core_errors():
            billed = core.billed_as(volume_type)
        if billed is None:
            return []
        return [RATES[component] for component in billed[1] if not self._select_rows(billed[0], component)]

    def explain_absence(self, volume_type: str) -> str:
        """Returns the sentence on prices of a volume type that are missing; "" if none is."""
        missing = self._list_missing_rates(volume_type)
        if not missing:
            return ""
        if len(missing) == len((core.billed_as(volume_type) or ("", ()))[1]):
            return f"no price of {volume_type} is known in {self.region}"
        named = " and ".join(missing)
        return f"no price of {volume_type}'s {named} is known in {self.region}: [volumes.{volume_type}] of a price file can state it"

    def find_rates(self, volume_type: str) -> dict | None:
        """Returns the US dollars a month of a volume type: `gib`; `iops` and `mib_s` as steps
        `((above, usd), ...)`, each price holding for the quantity above its `above` up to the next
        (empty: not billed by it); `million_ios` (0: not billed). None where a part of it has no
        price. Local disks cost nothing. Raises InputError for an unknown type."""
        if not self.knows(volume_type) or volume_type == "snapshot" or "." in volume_type:
            return None
        usd: dict = {"gib": 0.0, "iops": (), "mib_s": (), "million_ios": 0.0}
        billed = core.billed_as(volume_type)
        if billed is None:
            return usd
        for component in billed[1]:
            steps = tuple(sorted((row["from_quantity"], row["usd"]) for row in self._select_rows(billed[0], component)))
            usd[RATES[component]] = steps if component in ("iops", "throughput") else steps[0][1]
        return usd

    def _select_rows(self, product: str, component: str) -> list[core.PriceItem]:
        return [row for row in self._table["items"] if (row["product"], row["component"]) == (product, component)]

    def list_volume_items(self, storage: str, million_ios: float = 0.0) -> list[core.CostItem]:
        """Returns the items of a storage's monthly bill: `item`, `quantity`, `unit`,
        `unit_price_usd`, `usd`, `source`, `as_of` (days the price was seen). `million_ios`:
        requests a month, in millions, billed for magnetic volumes. Raises InputError where a price
        is not known."""
        with translate_core_errors():
            return core.monthly_cost(storage, self.region, self.as_of, million_ios, self._table)

    def compute_volume_totals(self, storages: Sequence[str], million_ios: float = 0.0) -> list[float]:
        """Returns the totals of many storages' monthly bills, US dollars; NaN where a price is not
        known or the storage does not exist."""
        with translate_core_errors():
            return core.monthly_totals(list(storages), self.region, self.as_of, million_ios, self._table)

    def list_snapshot_items(self, gib: float, daily_change_gib: float, kept_days: int) -> list[dict]:
        """Returns the items of a month of daily snapshots of `gib` GiB of data, kept `kept_days`
        days: SNAPSHOT_RULE. Raises InputError."""
        gib = check_number("snapshot of gib", gib, 0.0, MAX_GIB, "GiB")
        change = check_number("daily_change_gib", daily_change_gib, 0.0, gib, "GiB")
        days = check_whole("kept_days", kept_days, 1, 3_650)
        rows = self._select_rows("snapshot", "storage")
        if not rows:
            hint = "State it in a price file: [snapshots] gib."
            rule = "no snapshot price is known for this region"
            raise InputError(f"snapshots in {self.region}", rule, "data/prices_volumes.csv", hint)
        row = rows[0]
        parts = [("snapshot, all data once", gib)]
        if days > 1:
            parts.append((f"snapshots, changed blocks of {days - 1} day{'s' if days > 2 else ''}", change * (days - 1)))
        return [
            _make_item(name, quantity, row["unit"], row["usd"], row["source"], row["as_of"]) for name, quantity in parts
        ]

    # --- instances --------------------------------------------------------------------------------

    def compute_instance_hour_usd(self, instance_type: str) -> float | None:
        """Returns the US dollars an hour of an instance (Linux), its charge for EBS optimization
        included; None where no price is known. Raises InputError where the commitment has no
        factor."""
        hourly = self._list_hourly_items(instance_type)
        return sum(item["unit_price_usd"] for item in hourly) if hourly else None

    def list_instance_items(self, instance_type: str) -> list[dict]:
        """Returns the items of an instance's month of HOURS_PER_MONTH hours, as
        `list_volume_items`. Raises InputError where no price is known."""
        hourly = self._list_hourly_items(instance_type)
        if not hourly:
            hint = "Choose another region or type, or state it in a price file: [instances]."
            rule = "no price of it is known for this region"
            raise InputError(f"{instance_type} in {self.region}", rule, "data/prices_instances.csv", hint)
        return [dict(item) for item in hourly]

    def _list_hourly_items(self, instance_type: str) -> tuple[dict, ...]:
        """Returns the items of an instance's monthly bill, in USD; empty where no price is
        known."""
        if instance_type not in self._hours:
            self._hours[instance_type] = tuple(
                _make_item(name, HOURS_PER_MONTH, "hour", usd, source, as_of)
                for name, usd, source, as_of in self._list_hour_parts(instance_type)
            )
        return self._hours[instance_type]

    def _list_hour_parts(self, instance_type: str) -> list[tuple[str, float, str, str]]:
        """Returns name, US dollars an hour, source and day of each part of an instance's hourly
        price; an empty list without one."""
        if self.file is not None and instance_type in self.file.instances:
            return [(instance_type, self.file.instances[instance_type], self.file.name, "own rate")]
        price = core.instance_price(instance_type, self.region, self.as_of)
        if price is None:
            return []
        discount = 1.0 - self.instance_discount_percent / 100.0
        name, factor, source, as_of = instance_type, 1.0, price["source"], price["as_of"]
        if self.commitment != "on-demand":
            factor, factor_source, factor_words = self._find_commitment_factor(instance_type)
            name, source, as_of = (
                f"{instance_type}, {COMMITMENTS[self.commitment]}",
                f"{source}+{factor_source}",
                f"{as_of}; {factor_words}",
            )
        parts = [(name, price["usd"] * factor * discount, source, as_of)]
        surcharge = price["ebs_optimized_surcharge_usd"]
        if surcharge:  # billed by the hour, apart from the instance, so no commitment lowers it
            parts.append((f"{instance_type} EBS-optimized", surcharge * discount, price["source"], price["as_of"]))
        return parts

    def _find_commitment_factor(self, instance_type: str) -> tuple[float, str, str]:
        """Returns the factor of the commitment on an hourly price, its source, and a description of
        both. Raises InputError if the catalog has no factor."""
        if self.file is not None and self.commitment in self.file.commitment_factors:
            factor = self.file.commitment_factors[self.commitment]
            return factor, self.file.name, f"x {factor:g} of {self.file.name}"
        with translate_core_errors():
            commitment = core.commitment(self.commitment, instance_type, self.as_of)
        doubt = "" if commitment["confirmed"] else ", not confirmed"
        return commitment["factor"], commitment["source"], f"x {commitment['factor']:g} ({commitment['note']}{doubt})"


def _make_own_row(product: str, component: str, above: int, usd: float, source: str) -> core.PriceItem:
    """Returns a row of the region's price table for a rate of the price file, `source`."""
    unit = {"storage": "GB-month", "iops": "IOPS-month", "throughput": "MiB/s-month", "million_ios": "million I/Os"}[
        component
    ]
    return {
        "product": product,
        "component": component,
        "from_quantity": above,
        "usd": usd,
        "unit": unit,
        "source": source,
        "as_of": "own rate",
        "confirmed": True,
        "note": "",
    }


def _make_item(name: str, quantity: float, unit: str, usd: float, source: str, as_of: str) -> dict:
    """Returns an item of a monthly bill. `usd`: of one unit; `as_of`: day on which that price was
    seen."""
    return {
        "item": name,
        "quantity": quantity,
        "unit": unit,
        "unit_price_usd": usd,
        "usd": quantity * usd,
        "source": source,
        "as_of": as_of,
    }
