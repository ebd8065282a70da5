"""The methods by which a running server is copied, and their names."""

from __future__ import annotations

from headrace.servers.copies.clone import CloneCopy
from headrace.servers.copies.copy import CopyMethod, PhysicalCopy
from headrace.servers.copies.dump import DumpCopy
from headrace.servers.copies.files import FileCopy
from headrace.servers.copies.mariabackup import MariabackupCopy
from headrace.servers.copies.snapshot import SnapshotCopy

METHODS: dict[str, CopyMethod] = {
    "dump": DumpCopy(),
    "mariabackup": MariabackupCopy(),
    "clone": CloneCopy(),
    "snapshot": SnapshotCopy(),
    "files": FileCopy(),
}
# Methods whose copies a restore unpacks and prepares.
BY_FORM = {method.form: method for method in METHODS.values() if isinstance(method, PhysicalCopy)}
# The server's own tool for a physical copy.
PHYSICAL = {"mariadb": "mariabackup", "mysql": "clone"}
