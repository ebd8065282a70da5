"""Defines the request that a handler gets, and how it becomes the handler of an operation.

    @serves("ec2", "DeleteVolume")
    def delete_volume(request: ApiRequest) -> dict:
        request.change("volume.delete", volume=request.params["VolumeId"])
        return {}

models/parameters.csv says of each parameter whether it is handled, refused, or without effect, and
why. `request.params` is checked by the model; what is returned is named as the model's output.
AwsError is an error as AWS shapes it; a refusal of the lab becomes one (`errors.from_lab`). A
handler that returns although the request has DryRun is answered DryRunOperation: it changes things
by `request.change` alone, which hands DryRun on to the daemon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any, NamedTuple

from headrace.api.access.policies import Context
from headrace.api.cache import LabCache
from headrace.api.errors import AwsError
from headrace.api.protocol.shapes import Members, ModelShape, Operation, ServiceModel, get_service
from headrace.base.packaged import read_rows
from headrace.lab.client import Lab

# Modules whose import registers handlers; of a package, each of its modules.
ROOMS = ("ec2", "cloudwatch", "kms", "sts", "ebs")


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller, by the signature. `user`: its name; "root" for the key of the lab."""

    access_key: str
    account: str
    user: str = "root"

    @property
    def arn(self) -> str:
        """The caller's Amazon Resource Name."""
        return f"arn:aws:iam::{self.account}:" + ("root" if self.user == "root" else f"user/{self.user}")


@dataclass(frozen=True, slots=True)
class Permission:
    """A permission that a request needs: an action on a resource. `context`: the values of
    condition keys, texts or lists of texts.
    """

    action: str
    resource: str
    context: Context = field(default_factory=dict)


@dataclass(slots=True)
class ApiRequest:
    """A request whose signature and parameters are good."""

    service: str
    operation: str
    params: Members
    lab: Lab
    caller: Caller
    region: str
    request_id: str = ""
    # The cached tables of the lab's volumes and snapshots.
    cache: LabCache = field(default_factory=LabCache)

    @property
    def account(self) -> str:
        """The account of the lab."""
        return self.caller.account

    @property
    def zone(self) -> str:
        """The one zone of the lab."""
        return f"{self.region}a"

    @property
    def dry_run(self) -> bool:
        """True when the request is only to be checked."""
        return bool(self.params.get("DryRun"))

    @property
    def token(self) -> str | None:
        """The client's token for this request, which makes it idempotent."""
        return self.params.get("ClientToken")

    def change(self, call: str, timeout_s: float | None = None, /, **args: object) -> Any:
        """Makes a call of the daemon that changes something, with the request's token and DryRun,
        and returns its answer. `timeout_s`: the longest wait, None: the usual one.
        """
        return self.lab.call(call, timeout_s, token=self.token or None, dry_run=self.dry_run, **args)

    def make_arn(self, kind: str, name: str, service: str = "ec2") -> str:
        """Returns the Amazon Resource Name of a resource of this lab: make_arn("volume",
        "vol-...")."""
        return f"arn:aws:{service}:{self.region}:{self.account}:{kind}/{name}"


Handler = Callable[[ApiRequest], Members]
Needs = Callable[[ApiRequest], Iterable[Permission]]


@dataclass(frozen=True)
class Served:
    """A handler and the treatment of its parameters. `handled` and `refused` are paths of members:
    `TagSpecifications`, `Placement.HostId` (an element of a list has the list's path).
    """

    service: ServiceModel
    operation: Operation
    handler: Handler
    handled: frozenset[str]
    refused: Mapping[str, str]
    without_effect: Mapping[str, str]
    needs: Needs | None

    def refuse(self, params: Members) -> None:
        """Raises AwsError for a parameter that is refused and has a value."""
        if self.refused:
            for path, why in self.refused.items():
                if _has(params, path.split(".")):
                    code = "UnsupportedOperation" if self.service.name == "ec2" else "InvalidParameterValue"
                    code = "ValidationException" if self.service.name in ("kms", "ebs") else code
                    raise AwsError(code, f"The parameter {path} is not supported: {why}")


def _has(value: object, steps: list[str]) -> bool:
    """Returns whether a request gives the parameter at these steps below `value` in any element of
    a list; False counts as not given."""
    if isinstance(value, list):
        return any(_has(item, steps) for item in value)
    if not steps:
        # A switch that is off asks for nothing that the lab lacks.
        return value is not False
    return isinstance(value, Mapping) and steps[0] in value and _has(value[steps[0]], steps[1:])


class DeclaredName(NamedTuple):
    """A row of a table: the name that is written, the name that is read ("": none), the form. A
    row of parameters.csv: the parameter, its treatment, the reason."""

    name: str
    source: str
    form: str


@cache
def read_entries(table: str) -> dict[tuple[str, ...], list[DeclaredName]]:
    """Returns the rows of a table of `models` by the columns before the last three; cached."""
    entries: dict[tuple[str, ...], list[DeclaredName]] = {}
    for row in read_rows("headrace.api", "models", table):
        *key, name, source, form = row.values()
        entries.setdefault(tuple(key), []).append(DeclaredName(name, source, form))
    return entries


SERVED: dict[tuple[str, str], Served] = {}


def serves(service: str, operation: str, needs: Needs | None = None) -> Callable[[Handler], Handler]:
    """Makes a function the handler of an operation.

    `needs`: the permissions that it needs, asked only for callers with a policy; without it, the
    action on every resource. Parameters of models/arguments.csv are handled, those of
    models/parameters.csv are handled, refused (the lab cannot honour them; a request with one
    is refused) or without effect in a lab, each with the reason.
    """

    def register(handler: Handler) -> Handler:
        model, key = get_service(service), (service, operation)
        treatments: dict[str, dict[str, str]] = {"handled": {}, "refused": {}, "without effect": {}}
        for parameter, treatment, why in read_entries("parameters.csv").get(key, ()):
            treatments[treatment][parameter] = why
        handled = {entry.source for entry in read_entries("arguments.csv").get(key, ()) if entry.source}
        SERVED[key] = Served(
            model,
            model.operations[operation],
            handler,
            frozenset(handled.union(treatments["handled"])),
            treatments["refused"],
            treatments["without effect"],
            needs,
        )
        return handler

    return register


def load() -> dict[tuple[str, str], Served]:
    """Imports the modules of all handlers, and returns every handler by service and operation."""
    for room in ROOMS:
        if find_spec(f"headrace.api.{room}") is not None:
            module = import_module(f"headrace.api.{room}")
            for part in iter_modules(getattr(module, "__path__", [])):
                import_module(f"{module.__name__}.{part.name}")
    return SERVED


def list_unnamed(served: Served) -> set[str]:
    """Returns the members of an operation's input that its tables do not name, and names of the
    tables that are not in the model; empty where the tables are complete."""
    named = served.handled | set(served.refused) | set(served.without_effect)
    top = set(served.operation.input.members)
    return {name for name in top if name not in named} | {path for path in named if not _is_named(path, served)}


def _is_named(path: str, served: Served) -> bool:
    """Returns whether the path leads to a member of the operation's input, through lists too."""
    shape: ModelShape = served.operation.input
    for step in path.split("."):
        while shape.kind == "list":
            shape = shape.item.shape
        if shape.kind != "structure" or step not in shape.members:
            return False
        shape = shape.members[step].shape
    return True
