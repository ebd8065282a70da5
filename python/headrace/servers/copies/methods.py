"""The methods by which a running server is copied, and their names."""

from __future__ import annotations

from headrace.servers.copies.clone import Clone
from headrace.servers.copies.copy import CopyMethod
from headrace.servers.copies.dump import Dump
from headrace.servers.copies.files import Files
from headrace.servers.copies.mariabackup import Mariabackup
from headrace.servers.copies.snapshot import Snapshot

METHODS: dict[str, CopyMethod] = {
    "dump": Dump(),
    "mariabackup": Mariabackup(),
    "clone": Clone(),
    "snapshot": Snapshot(),
    "files": Files(),
}
BY_FORM = {method.form: method for method in METHODS.values()}
# The server's own tool for a physical copy.
PHYSICAL = {"mariadb": "mariabackup", "mysql": "clone"}
