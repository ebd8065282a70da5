"""Rules of services that a database there meets, in words."""

from __future__ import annotations

from headrace.base import core
from headrace.planner.market.durability import copies_of

# Rules of a service that growing storage meets, with how each is said. Figures and
# sources are those of data/managed/rules.csv.
STORAGE_RULES = {
    "modification_cooldown": "storage can be changed again after {value} {unit}, or when it is optimized, whichever is later",
    "autoscaling_free": "autoscaling adds storage where {value} {unit} or less stays free for five minutes",
    "autoscaling_step": "a step of it adds {value} {unit}, 10 GiB or the growth of seven hours, whichever is most",
    "storage_full_large": "with {value} {unit} or less free of 100 GiB and more RDS stops the server",
    "switch_to_io_optimized": "it can be switched to I/O-Optimized once in {value} {unit}, and back at any time",
}


# Option without which a rule does not hold: a cluster's storage does not grow by itself
# (data/managed/cannot.csv).
NO_AUTOSCALING = "rds:multi-az-cluster"


def storage_rules(deployment: str, as_of: str) -> tuple[str, ...]:
    """Says what the storage of a deployment lives by, in words with sources."""
    sentences = []
    for key, words in STORAGE_RULES.items():
        if deployment == NO_AUTOSCALING and key.startswith("autoscaling"):
            continue
        rule = core.managed_rule(deployment, key, as_of)
        if rule is not None:
            doubt = "" if rule["confirmed"] else ", not confirmed"
            text = words.format(value=rule["value"], unit=rule["unit"])
            sentences.append(f"{text} ({rule['source']}, {rule['first_seen']}{doubt})")
    copies = copies_of(deployment)
    if copies is not None:
        sentences.append(f"the annual chance of losing the data is that of {copies.words}")
    return tuple(sentences)


def managed_caveats(deployment: str) -> list[str]:
    """Says what to know of a choice at a service."""
    caveats = [f"{deployment} cannot {limit['what']}: {limit['detail']}." for limit in core.service_limits(deployment)]
    if deployment.startswith("aurora"):
        caveats.insert(
            0, "The latency of Aurora's storage cannot be looked into: its interval is wide for that reason."
        )
    return caveats
