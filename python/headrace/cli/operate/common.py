"""Options of commands that look at running servers and their storage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.base.lazy import defer_imports
from headrace.base.options import AsOfText, InstanceType
from headrace.cli.options import LabPlace, PasswordOptions, make_option, make_storage_option

if TYPE_CHECKING:
    from headrace.operate.targets import SourceOptions

with defer_imports():
    from headrace.base import storage as base_storage
    from headrace.operate import targets

TARGET = "lab:VOLUME[,VOLUME...], mysql://USER@HOST[:PORT], aws:vol-..., a captured folder or a file of one"
TargetArgument = Annotated[str, typer.Argument(metavar="TARGET", help=f"{TARGET}.")]
LIVE = "lab:VOLUME[,VOLUME...], mysql://USER@HOST[:PORT] or aws:vol-...; one or several"
TargetsArgument = Annotated[list[str], typer.Argument(metavar="TARGET...", help=f"{LIVE}.")]


@dataclass(frozen=True, kw_only=True)
class TodayOptions:
    """Today's storage, where the target does not say."""

    storage: Annotated[str | None, make_storage_option("Storage of the volumes, where the target does not say.")] = None
    instance: InstanceType = None
    as_of: AsOfText = None
    device: Annotated[
        list[str] | None,
        make_option(
            "DEVICE", "Block device of the server or of a recording: nvme1n1. Repeatable. Default: that of the data."
        ),
    ] = None

    def make_source_options(self, place: LabPlace, password: PasswordOptions) -> SourceOptions:
        """Returns the options in the form that the evidence takes. Raises InputError for a storage
        that is not `[INSTANCE/]DATA[,log=LOG]`."""
        named = None if self.storage is None else base_storage.parse_placement(self.storage)
        log = None if named is None or named.log is None else str(named.log)
        return targets.SourceOptions(
            None if named is None else str(named.data),
            (named and named.instance) or self.instance,
            log_storage=log,
            as_of=self.as_of,
            devices=tuple(self.device or ()),
            read_address=password.read_address,
            lab=place.open,
        )
