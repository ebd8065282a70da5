"""The tail of a dead source's binary log, read from its volume and applied to the new source.

An EBS volume outlives its instance: what the source flushed is there, received by a replica or not.
The volume is attached elsewhere, its filesystem mounted read-only, and the binary log's transactions
beyond those that the new source has are applied to it, with their own GTIDs.
"""

from __future__ import annotations

from headrace.errors import CouldNotRun
from headrace.servers.failover.hosts import AddressHost
from headrace.servers.failover.planning.members import GUIDE
from headrace.servers.topology.gtid import GtidSet


def rescue(old: AddressHost, new: AddressHost, has: GtidSet, say) -> int:
    """Number of transactions that were applied."""
    raise CouldNotRun(old.name, "not yet", GUIDE, "")
