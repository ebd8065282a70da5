"""Prunes botocore's service models to the operations of `headrace/api/models/operations.csv`.

Run by hand when an operation is added or botocore's model of one is to be followed:

    python packaging/prune_models.py

Needs botocore, which nothing else of the package does: the pruned models lie in the package as
`headrace/api/models/SERVICE.json`, with botocore's licence and notice. The dropped parts are
documentation (but for the names of filters, which stand nowhere else), and shapes that no served
operation reaches; names of all other operations stay, so that a call that AWS has and the lab has
not is told from one that does not exist.
"""

from __future__ import annotations

import csv
import gzip
import importlib.metadata
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import botocore

MODELS = Path(__file__).parents[1] / "python/headrace/api/models"
DROPPED = {"documentation", "deprecated", "deprecatedMessage", "deprecatedSince", "documentationUrl", "examples"}
METADATA = (
    "apiVersion", "endpointPrefix", "jsonVersion", "protocols", "targetPrefix", "xmlNamespace", "awsQueryCompatible", "serviceId",
)  # fmt: skip


def model(service: str) -> dict:
    """Returns botocore's newest model of a service."""
    folder = max((Path(botocore.__file__).parent / "data" / service).iterdir())
    return json.loads(gzip.decompress((folder / "service-2.json.gz").read_bytes()))


def without_prose(node: object) -> object:
    """Returns a service model without its documentation. Names of members are data, and stay even
    if they are called documentation."""
    if isinstance(node, list):
        return [without_prose(item) for item in node]
    if not isinstance(node, dict):
        return node
    retained = {key: value for key, value in node.items() if key not in DROPPED}
    return {
        key: {name: without_prose(member) for name, member in value.items()}
        if key == "members"
        else without_prose(value)
        for key, value in retained.items()
    }


def references(shape: dict) -> Iterator[str]:
    """Names of the shapes that a shape is made of."""
    for part in (
        *shape.get("members", {}).values(),
        *(shape[key] for key in ("member", "key", "value") if key in shape),
    ):
        yield part["shape"]


def filters(whole: dict, operation: str) -> list[str]:
    """Names of the filters of an operation, which stand in its documentation alone."""
    shape = whole["shapes"][whole["operations"][operation]["input"]["shape"]]
    text = shape["members"].get("Filters", {}).get("documentation", "")
    return sorted(set(re.findall(r"<code>([a-zA-Z0-9.-]+)</code> +-", text)))


def prune(service: str, served: list[str]) -> dict:
    """Cuts the part that the endpoint needs out of a service: its served operations, the shapes
    they reach, the names of the others.
    """
    whole = model(service)
    operations = {name: without_prose(whole["operations"][name]) for name in sorted(served)}
    expected = [
        part["shape"]
        for operation in operations.values()
        for part in (operation.get("input"), operation.get("output"), *operation.get("errors", ()))
        if part
    ]
    shapes: dict[str, dict] = {}
    while expected:
        name = expected.pop()
        if name not in shapes:
            shapes[name] = without_prose(whole["shapes"][name])
            expected += references(shapes[name])
    for name, operation in operations.items():
        if service == "ec2" and (names := filters(whole, name)):
            operation["filters"] = names
    return {
        "botocore": importlib.metadata.version("botocore"),
        "metadata": {key: whole["metadata"][key] for key in METADATA if key in whole["metadata"]},
        "operations": operations,
        "others": sorted(set(whole["operations"]) - set(operations)),
        "shapes": dict(sorted(shapes.items())),
    }


def main() -> None:
    served: dict[str, list[str]] = {}
    for row in csv.DictReader((MODELS / "operations.csv").open()):
        served.setdefault(row["service"], []).extend([row["operation"]] if row["answer"] == "served" else [])
    for service, names in served.items():
        text = json.dumps(prune(service, names), separators=(",", ":"), ensure_ascii=False)
        (MODELS / f"{service}.json").write_text(text + "\n")
        print(f"{service}: {len(names)} operations, {len(text):,} characters")
    notices = Path(str(importlib.metadata.distribution("botocore").locate_file(""))) / (
        f"botocore-{importlib.metadata.version('botocore')}.dist-info"
    )
    for name in ("LICENSE.txt", "NOTICE"):
        shutil.copyfile(notices / name, MODELS / f"botocore-{name}")


if __name__ == "__main__":
    main()
