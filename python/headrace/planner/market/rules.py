"""Rules of services that whoever runs a database there meets, in words."""

from __future__ import annotations

from headrace.base import core

# Rules of a service that whoever grows its storage meets, with how each is said. Figures and
# sources are those of data/managed/rules.csv.
STORAGE_RULES = {
    "modification_cooldown": "storage can be changed again after {value} {unit}, or when it is optimized, whichever is later",
    "autoscaling_free": "autoscaling adds storage when {value} {unit} or less is free for five minutes",
    "autoscaling_step": "each step adds {value} {unit}, 10 GiB or the growth of seven hours, whichever is most",
    "storage_full": "with {value} {unit} or less free RDS stops the server",
    "switch_to_io_optimized": "it can be switched to I/O-Optimized once in {value} {unit}, and back at any time",
}


def storage_rules(deployment: str, as_of: str) -> tuple[str, ...]:
    """What the storage of a deployment lives by, in words with sources."""
    found = []
    for key, words in STORAGE_RULES.items():
        rule = core.managed_rule(deployment, key, as_of) 
        if rule is not None:
            doubt = "" if rule["confirmed"] else ", not confirmed"
            told = words.format(value=rule["value"], unit=rule["unit"])
            found.append(f"{told} ({rule['source']}, {rule['first_seen']}{doubt})")
    return tuple(found)


def managed_caveats(deployment: str) -> list[str]:
    """What to know of a choice at a service."""
    found = [f"{deployment} cannot {one['what']}: {one['detail']}." for one in core.service_limits(deployment)]
    if deployment.startswith("aurora"):
        found.insert(0, "The latency of Aurora's storage cannot be looked into: its interval is wide for that reason.")
    return found
