"""The catalog as frames: volume types, instances and prices on a day, each row with its source.

    >>> import headrace.catalog.facts
    >>> headrace.catalog.facts.volumes(volume_type="gp2")["size_gib_max"].to_list()
    [16384]

The facts stand in data/ (see data/README.md); this file only lays them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

import polars as pl

from headrace.base import core
from headrace.base.checks import check_text, suggest_nearest
from headrace.base.core import translate_core_errors
from headrace.base.units import MIB, Day, normalise_day
from headrace.errors import InputError

NOT_RULES = ("facts", "evidence")


def list_volume_types() -> list[str]:
    """Returns the names of all volume types in the catalog's order, the oldest first."""
    return list(dict.fromkeys(era["volume_type"] for era in core.volume_eras(all_eras=True)))


def volumes(as_of: Day = None, volume_type: str | None = None, all_eras: bool = False) -> pl.DataFrame:
    """Returns the limits of the volume types on a day (ISO; None: the newest known), or of every
    era.

    Columns: `volume_type`, `from`, `until` (days; null: still holds), `size_gib_min`,
    `size_gib_max` (GiB), `iops` and `throughput` (the rule in words), `iops_max`,
    `throughput_mib_s_max` (MiB/s), `io_unit_kib` (largest I/O that counts once), `consistency`,
    `afr_percent_low`, `afr_percent_high` (annual failure rate), `persistent`, `source` (ids),
    `unconfirmed` (fields and notes, "" when there are none). Raises InputError for an unknown type,
    one that did not exist yet, or a date that is none.
    """
    as_of = normalise_day(as_of)
    with translate_core_errors():
        eras = core.volume_eras(as_of, all_eras)
        if volume_type is not None:
            name = _find_type_name(volume_type)
            eras = [era for era in eras if era["volume_type"] == name]
            if not eras:
                core.storage_limits(f"{name}:1000", as_of)  # its refusal says since when the type exists
    return pl.DataFrame([_make_volume_row(era) for era in eras], schema=VOLUME_SCHEMA, orient="row")


def _find_type_name(text: str) -> str:
    """Returns the catalog's name of a volume type or of one of its aliases (magnetic: standard)."""
    check_text("volume_type", text)
    if text in list_volume_types():
        return text
    if ":" in text:
        raise InputError(text, "is storage, not a volume type", "data/volumes", f"Ask for {text.split(':')[0]}.")
    return core.parse_storage(f"{text}:1000")["members"][0]["volume_type"]


VOLUME_SCHEMA = {
    "volume_type": pl.String, "from": pl.String, "until": pl.String, "size_gib_min": pl.Int64, "size_gib_max": pl.Int64,
    "iops": pl.String, "iops_max": pl.Int64, "throughput": pl.String, "throughput_mib_s_max": pl.Int64, "io_unit_kib": pl.Int64,
    "consistency": pl.String, "afr_percent_low": pl.Float64, "afr_percent_high": pl.Float64, "persistent": pl.Boolean,
    "source": pl.String, "unconfirmed": pl.String,
}  # fmt: skip


def _make_volume_row(era: core.Era) -> dict:
    """Returns the row of a volume type in one era: GiB, IOPS, MiB/s and KiB of an I/O, AFR in
    percent."""
    rules = {key: value for key, value in era.items() if key not in NOT_RULES}
    iops, iops_max = describe_iops_rule(era["iops"])
    throughput, throughput_max = describe_throughput_rule(era["throughput"])
    promise = (era.get("consistency") or {}).get("value")
    afr = (era.get("durability_afr_percent") or {}).get("value") or (None, None)
    return {
        "volume_type": era["volume_type"],
        "from": era["from"],
        "until": era["until"],
        "size_gib_min": era["size_gib"]["min"]["value"],
        "size_gib_max": era["size_gib"]["max"]["value"],
        "iops": iops,
        "iops_max": iops_max,
        "throughput": throughput,
        "throughput_mib_s_max": throughput_max,
        "io_unit_kib": era["io_unit_bytes"]["value"] // 1024,
        "consistency": f"{promise['at_least_percent']:g} % in {promise['of_time_percent']:g} % of time"
        if promise
        else None,
        "afr_percent_low": afr[0],
        "afr_percent_high": afr[1],
        "persistent": era["persistent"],
        "source": " ".join(dict.fromkeys(_list_sources(era["evidence"]) + _list_sources(rules))),
        "unconfirmed": "; ".join(note.replace("; ", ", ") for note in _list_unconfirmed(rules)),
    }


def describe_iops_rule(rule: dict) -> tuple[str, int]:
    """Returns the description of an era's IOPS rule, and the most IOPS that it allows."""
    v = {key: item["value"] for key, item in rule.items() if isinstance(item, dict) and "value" in item}
    match rule["rule"]:
        case "fixed":
            return f"{v['sustained']:,}", v["sustained"]
        case "per-gib":
            burst = {key: item["value"] for key, item in rule["burst"].items()}
            return (
                f"{v['per_gib']} per GiB, {v['floor']:,} to {v['cap']:,}; below {burst['below_gib']:,} GiB burst to {burst['iops']:,} "
                f"on {burst['capacity_ios']:,} credits",
                max(v["cap"], burst["iops"]),
            )
        case "included-plus":
            return f"{v['included']:,} included, to {v['max']:,}, at most {v['per_gib']:,} per GiB", v["max"]
        case "provisioned":
            outside = f" ({v['non_nitro_max']:,} outside Nitro)" if "non_nitro_max" in v else ""
            return f"{v['min']:,} to {v['max']:,} bought, at most {v['per_gib']:,} per GiB{outside}", v["max"]
        case "throughput-bound":
            return f"{v['max']:,} of 1 MiB, bound by throughput", v["max"]
        case _:
            return f"by instance type; {v['fallback']:,} where none is documented", v["fallback"]


def describe_throughput_rule(rule: dict) -> tuple[str, int]:
    """Returns the description of an era's throughput rule, and the most MiB/s that it allows."""
    v = {key: item["value"] for key, item in rule.items() if isinstance(item, dict) and "value" in item}
    match rule["rule"]:
        case "fixed":
            return f"{v['mib_s']:,} MiB/s", v["mib_s"]
        case "by-size":
            small = f", {v['small_mib_s']:,} up to {v['small_up_to_gib']:,} GiB" if "small_mib_s" in v else ""
            return f"{v['mib_s']:,} MiB/s{small}", v["mib_s"]
        case "included-plus":
            return (
                f"{v['included_mib_s']:,} MiB/s included, to {v['max_mib_s']:,}, at most {v['mib_s_per_iops']:g} per IOPS",
                v["max_mib_s"],
            )
        case "per-iops":
            tiers = [
                f"{tier['kib_per_iops']['value']} KiB/s per IOPS to {tier['cap_mib_s']['value']:,} MiB/s"
                + (f" (up to {tier['up_to_iops']:,} IOPS)" if tier.get("up_to_iops") else "")
                for tier in rule["tier"]
            ]
            return "; ".join(tiers), max(tier["cap_mib_s"]["value"] for tier in rule["tier"])
        case "per-tib":
            return (
                f"{v['baseline_per_tib_mib_s']} per TiB to {v['baseline_cap_mib_s']} MiB/s; burst {v['burst_per_tib_mib_s']} per TiB to "
                f"{v['burst_cap_mib_s']} MiB/s on {v['capacity_tib_per_tib']} TiB of credits per TiB",
                v["burst_cap_mib_s"],
            )
        case _:
            return (
                f"{v['kib_per_documented_iops']} KiB/s per documented IOPS; {v['fallback_mib_s']:,} MiB/s where none is documented",
                v["fallback_mib_s"],
            )


def _list_sources(value: object) -> list[str]:
    """Lists the sources named anywhere in a value of the catalog."""
    if isinstance(value, dict):
        own = value.get("source")
        below = [name for key, item in value.items() if key != "source" for name in _list_sources(item)]
        return ([own] if isinstance(own, str) else list(own or [])) + below
    if isinstance(value, (list, tuple)):
        return [name for item in value for name in _list_sources(item)]
    return []


def _list_unconfirmed(value: object, path: str = "") -> list[str]:
    """Returns `path: note` for each figure in a value of the catalog that was not read in a stored
    source."""
    if isinstance(value, dict):
        if value.get("confirmed") is False:
            return [f"{path}: {value.get('note') or 'not read in a stored source'}"]
        return [text for key, item in value.items() for text in _list_unconfirmed(item, f"{path}.{key}".lstrip("."))]
    if isinstance(value, (list, tuple)):
        return [text for index, item in enumerate(value) for text in _list_unconfirmed(item, f"{path}[{index}]")]
    return []


def instances(as_of: Day = None, region: str = "us-east-1", family: str | None = None) -> pl.DataFrame:
    """Returns the instance types on a day with their EBS limits and the price of an hour.

    `family`: `m5`, an exact name, or a pattern (`r6i.*`). Columns: `instance_type`, `vcpus`,
    `memory_gib`, `nitro`, `baseline_iops`, `max_iops`, `baseline_mib_s`, `max_mib_s` (null: no
    limit known), `burst_min` (minutes the maximum holds from a full bucket; 0: always),
    `instance_store_gb`, `as_of` (day asked for), `usd_hour` (Linux on demand in `region`; null: no
    price known), `price_source`, `price_as_of`, `unconfirmed`. Raises InputError for a family
    that matches nothing, an unknown region, or a date that is none.
    """
    region = check_region(region)
    as_of = normalise_day(as_of)
    if family is not None:
        check_text("family", family)
    with translate_core_errors():
        instance_types = core.instances(as_of)
        chosen = [item for item in instance_types if family is None or matches(item["instance_type"], family)]
        if not chosen:
            families = sorted({item["instance_type"].split(".")[0] for item in instance_types})
            raise InputError(
                str(family),
                "matches no instance type of this catalog",
                "data/instances.csv",
                suggest_nearest(family, families + [item["instance_type"] for item in instance_types])
                or "Name a family (m5), a type (m5.large) or a pattern (r6i.*).",
            )
        rows = [_make_instance_row(item, core.instance_price(item["instance_type"], region, as_of)) for item in chosen]
    return pl.DataFrame(rows, schema=INSTANCE_SCHEMA, orient="row")


INSTANCE_SCHEMA = {
    "instance_type": pl.String, "vcpus": pl.Int64, "memory_gib": pl.Float64, "nitro": pl.Boolean, "baseline_iops": pl.Int64,
    "max_iops": pl.Int64, "baseline_mib_s": pl.Float64, "max_mib_s": pl.Float64, "burst_min": pl.Float64,
    "instance_store_gb": pl.Int64, "as_of": pl.String, "usd_hour": pl.Float64, "price_source": pl.String, "price_as_of": pl.String,
    "unconfirmed": pl.String,
}  # fmt: skip


def matches(instance_type: str, family: str) -> bool:
    """Returns whether an instance type has the name, family or pattern `family`."""
    return instance_type == family or instance_type.split(".")[0] == family or fnmatchcase(instance_type, family)


def _make_instance_row(item: core.Instance, price: core.InstancePrice | None) -> dict:
    """Returns the row of an instance type: GiB, IOPS, MiB/s, minutes of burst, USD an hour (None:
    no price known)."""
    limits = {key: item[key] for key in ("baseline_bytes_s", "max_bytes_s")}
    mib_s = {key: None if value is None else round(value / MIB, 2) for key, value in limits.items()}
    notes = [f"{caveat['field']}: {caveat['text']} ({caveat['source']})" for caveat in item["caveats"]]
    if not price:
        notes.append("price: none known in this region on this day")
    elif price["note"]:
        notes.append(f"price: {price['note']}")
    paid: Mapping = price or {}
    return {
        "instance_type": item["instance_type"],
        "vcpus": item["vcpus"],
        "memory_gib": None if item["memory_mib"] is None else round(item["memory_mib"] / 1024, 3),
        "nitro": item["nitro"],
        "baseline_iops": item["baseline_iops"],
        "max_iops": item["max_iops"],
        "baseline_mib_s": mib_s["baseline_bytes_s"],
        "max_mib_s": mib_s["max_bytes_s"],
        "burst_min": (item["burst_seconds"] or 0) / 60,
        "instance_store_gb": item["instance_store_gb"],
        "as_of": item["as_of"],
        "usd_hour": paid.get("usd"),
        "price_source": paid.get("source"),
        "price_as_of": paid.get("as_of"),
        "unconfirmed": "; ".join(note.replace("; ", ", ") for note in notes),
    }


def prices(region: str = "us-east-1", as_of: Day = None) -> pl.DataFrame:
    """Returns the EBS prices of a region on a day, US dollars: `product`, `component`,
    `from_quantity` (holds above it), `usd`, `unit`, `source`, `as_of` (days it was seen),
    `unconfirmed`. Raises InputError for a region that is unknown or has none, or a date that is
    none.
    """
    with translate_core_errors():
        answer = core.volume_prices(check_text("region", region), normalise_day(as_of))
    if not answer["items"]:
        raise make_price_refusal(answer["region"])
    rows = [
        {key: item[key] for key in ("product", "component", "from_quantity", "usd", "unit", "source", "as_of")}
        | {
            "unconfirmed": item["note"].replace("; ", ", ")
            if not item["confirmed"] or "not confirmed" in item["note"]
            else ""
        }
        for item in answer["items"]
    ]
    return pl.DataFrame(rows, schema=PRICE_SCHEMA, orient="row")


PRICE_SCHEMA = {
    "product": pl.String, "component": pl.String, "from_quantity": pl.Float64, "usd": pl.Float64, "unit": pl.String,
    "source": pl.String, "as_of": pl.String, "unconfirmed": pl.String,
}  # fmt: skip


def sources() -> pl.DataFrame:
    """Returns the sources of all figures: `id`, `citation`, `as_of` (day it speaks for),
    `confidence` (high, medium, low), `note`."""
    return pl.DataFrame(
        core.sources(),
        schema={key: pl.String for key in ("id", "citation", "as_of", "confidence", "note")},
        orient="row",
    )


def check_region(region: str) -> str:
    """Returns the code of a region. Raises InputError, with the known codes, for another text."""
    with translate_core_errors():
        return core.region_code(check_text("region", region, "For example us-east-1."))


def check_day(as_of: Day) -> str | None:
    """Returns the day as ISO text (None: the newest that the catalog has). Raises InputError for a
    value that is not a day, and for days before the first volume type of the catalog."""
    day = normalise_day(as_of)
    with translate_core_errors():
        eras = core.volume_eras(day)
    if not eras:
        first = min(era["from"] for era in core.volume_eras(all_eras=True))
        rule = f"the first volumes in the catalog are of {first}"
        raise InputError(f"day {day}", rule, "data/volumes", "Ask for a later day.")
    return day


def make_price_refusal(region: str) -> InputError:
    """Returns the refusal of a region that has prices of instances, but none of EBS."""
    return InputError(
        f"region {region}",
        "has prices of instances here, but none of EBS",
        "data/prices_volumes.csv",
        "State them in a price file (docs/reference/prices.md), or choose a region with prices of EBS: "
        f"{', '.join(core.regions())}.",
    )


def list_caveats(storage: str, instance: str | None = None, as_of: str | None = None) -> list[str]:
    """Returns the caveats on the limits of a storage and an instance on a day, without repetitions,
    and first one on a day after the newest of the catalog. Raises InputError."""
    with translate_core_errors():
        limits = core.storage_limits(storage, as_of, instance)
        host = [] if instance is None else core.instance(instance, as_of)["caveats"]
    pairs = [(member["spec"]["volume_type"], caveat) for member in limits for caveat in member["caveats"]]
    pairs += [(instance, caveat) for caveat in host]
    notes = [f"{what}: {caveat['field']}: {caveat['text']} ({caveat['source']})" for what, caveat in pairs]
    if as_of and as_of > (newest := core.newest_date()):
        notes.insert(
            0,
            f"{as_of} is later than the catalog, which knows limits and prices up to {newest}: those of {newest} are used",
        )
    return list(dict.fromkeys(notes))


def list_latency_caveats(storage: str, as_of: str | None = None) -> list[str]:
    """Returns a remark for each volume type of a storage and kind of I/O whose latency is a guess
    or weakly sourced. Raises InputError."""
    with translate_core_errors():
        limits = core.storage_limits(storage, as_of)
        day = as_of or core.newest_date()
        profiles = core.latency_profiles()
    notes = []
    for kind in dict.fromkeys(member["spec"]["volume_type"] for member in limits):
        for op in ("read", "write"):
            valid = [row for row in profiles if row["volume_type"] == kind and row["op"] == op and row["from"] <= day]
            if valid and valid[-1]["confidence"] in ("low", "guess"):
                notes.append(f"{kind}: {op} latency: confidence {valid[-1]['confidence']} ({valid[-1]['source']})")
    return notes
