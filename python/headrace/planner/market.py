"""What can be bought on a day in a region: families of volumes and instances, and why the rest cannot."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from headrace import _core
from headrace.errors import InputError, core_errors
from headrace.planner.candidates import LAYOUTS, Family, member_counts
from headrace.planner.evaluate import instance_usd_month
from headrace.planner.result import FamilyVerdict
from headrace.workload.model import did_you_mean, shown

TYPES = ("standard", "gp2", "gp3", "io1", "io2", "io2-block-express", "st1", "sc1", "instance-store")
EXCLUDABLE = (*TYPES, "raid0", "raid10")


def check_exclude(exclude: Sequence[str] | str) -> frozenset[str]:
    """Types and layouts the user does not want. Raises InputError for an unknown name."""
    names = [exclude] if isinstance(exclude, str) else list(exclude)
    for name in names:
        if not isinstance(name, str) or name.strip().lower() not in EXCLUDABLE:
            hint = did_you_mean(name, EXCLUDABLE) or f"Known: {', '.join(EXCLUDABLE)}."
            raise InputError(f"exclude = {shown(name)}", "is neither a volume type nor raid0 or raid10", "headrace plan", hint)
    return frozenset(name.strip().lower() for name in names)


def families_on(
    as_of: str, prices: dict, excluded: frozenset[str], max_volumes: int, hosts: Sequence[dict]
) -> tuple[list[Family], list[FamilyVerdict]]:
    """The families to search, and verdicts on types that are out before any search. `prices`: of the region. Raises InputError for
    a bad date."""
    with core_errors():
        eras = {era["volume_type"]: era for era in _core.volume_eras(as_of)}
    priced = {item["product"] for item in prices["items"]}
    families, verdicts = [], []
    for kind in TYPES:
        outcome, why = _out(kind, eras, priced, excluded, prices["region"], as_of)
        if kind == "instance-store" and not any(host["instance_store_devices"] for host in hosts):
            outcome, why = outcome, why or "no instance with local disks was given"
        if why:
            verdicts.append(FamilyVerdict(kind, outcome, why))
            continue
        for layout in LAYOUTS:
            counts = member_counts(layout, max_volumes)
            if layout in excluded:
                verdicts.append(FamilyVerdict(Family(kind, layout, eras[kind]).name, "excluded", "excluded by you"))
            elif not counts and kind != "instance-store":
                least = {"raid0": 2, "raid10": 4}[layout]
                verdicts.append(
                    FamilyVerdict(
                        Family(kind, layout, eras[kind]).name, "excluded", f"needs {least} volumes, at most {max_volumes} allowed"
                    )
                )
            else:
                families.append(Family(kind, layout, eras[kind], counts))
    return families, verdicts


def _out(kind: str, eras: dict, priced: set[str], excluded: frozenset[str], region: str, as_of: str) -> tuple[str, str]:
    """Why a type is out before any search, or ("impossible", "")."""
    if kind in excluded:
        return "excluded", "excluded by you"
    if kind not in eras:
        return "impossible", f"does not exist on {as_of}"
    if kind == "io2-block-express" and "io2" in eras and _same_limits(eras[kind], eras["io2"]):
        return "impossible", f"is what io2 is on {as_of}: see io2"
    billed_as = "io2" if kind == "io2-block-express" else kind
    if billed_as not in priced and kind != "instance-store":
        return "impossible", f"no price of {billed_as} is known in {region}"
    return "impossible", ""


def _same_limits(one: dict, other: dict) -> bool:
    def figures(era: dict) -> list:
        bounds = [era["size_gib"]["max"]["value"], era["iops"].get("max", {}).get("value"), era["iops"].get("per_gib", {}).get("value")]
        return bounds + [tier["cap_mib_s"]["value"] for tier in era["throughput"].get("tier", [])]

    return figures(one) == figures(other)


def instances_named(patterns: Sequence[str] | None, region: str, as_of: str) -> tuple[list[dict], list[tuple[str, str]]]:
    """Instances to combine with, cheapest first, each with its `price`; and those left out, with the reason.

    A pattern is a type or a glob (`r6i.*`). Raises InputError when one matches nothing, or when nothing usable is left.
    """
    if patterns is None:
        return [], []
    patterns = [patterns] if isinstance(patterns, str) else list(patterns)
    with core_errors():
        known = {entry["instance_type"]: entry for entry in _core.instances(as_of)}
    names: dict[str, None] = {}
    for pattern in patterns:
        names.update(dict.fromkeys(_matching(pattern, known, as_of)))
    usable, skipped = [], []
    for name in names:
        entry = known[name]
        price = _core.instance_price(name, region, as_of)
        if not any(entry[limit] for limit in ("baseline_iops", "max_iops", "baseline_bytes_s", "max_bytes_s")):
            skipped.append((name, f"its EBS limits are not known on {as_of}"))
        elif price is None:
            skipped.append((name, f"no price is known in {region}"))
        else:
            usable.append({**entry, "price": price})
    if not usable:
        why = f"{skipped[0][0]}: {skipped[0][1]}" if skipped else "none was named"
        named = ", ".join(map(str, patterns)) or "instances"
        raise InputError(named, f"no instance can be planned with ({why})", "data/instances_limits.csv",
                         "Name others, or leave instances out to plan the volumes alone.")  # fmt: skip
    usable.sort(key=lambda entry: (instance_usd_month(entry), entry["instance_type"]))
    return usable, skipped


def _matching(pattern: object, known: dict[str, dict], as_of: str) -> list[str]:
    text = pattern.strip().lower() if isinstance(pattern, str) else ""
    found = [name for name in known if fnmatchcase(name, text)] if text else []
    if not found:
        if text and not set(text) & set("*?["):
            with core_errors():  # names the day a type was first seen, or the nearest name
                _core.instance(text, as_of)
        hint = did_you_mean(pattern, known) or "See `headrace catalog instances`."
        raise InputError(f"instance {shown(pattern)}", f"matches no instance type of the catalog on {as_of}", "data/instances.csv", hint)
    return found
