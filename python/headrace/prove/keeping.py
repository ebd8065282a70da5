"""Where proofs are kept: a folder each, with proof.json, predictions.json, workload.toml and the run store of what was measured."""

from __future__ import annotations

import json
import os
import secrets
from datetime import UTC, datetime
from pathlib import Path

from headrace.base import settings
from headrace.bench.store.store import write_json
from headrace.errors import CouldNotRun, InputError
from headrace.prove.configuration import DOC, Configuration
from headrace.prove.result import SCHEMA, Measured, Predicted, Proof, Step

PROOF_FILE = "proof.json"
OF_STEP = ("tps_error_percent", "p95_error_percent", "verdict")
OF_PROOF = ("schema", "steps", "holds", "verdict", "median_error_percent")


def default_folder() -> Path:
    """$HEADRACE_PROOFS, else $XDG_DATA_HOME/headrace/proofs, else ~/.local/share/headrace/proofs; made when missing. Raises CouldNotRun."""
    return _made(settings.folder("HEADRACE_PROOFS"))


def begin(folder: str | os.PathLike | None) -> Path:
    """The folder of a new proof. Raises CouldNotRun."""
    base = default_folder() if folder is None else _made(Path(folder).absolute())
    return _made(base / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}")


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CouldNotRun(str(folder), f"cannot be made: {error.strerror}", DOC, "Name another: HEADRACE_PROOFS or --folder.") from None
    return folder


def write(proof: Proof) -> Path:
    """Writes proof.json, whole or not at all. Raises CouldNotRun."""
    path = Path(proof.folder) / PROOF_FILE
    fresh = path.with_suffix(".new")
    try:
        write_json(fresh, proof.to_dict())
        os.replace(fresh, path)
    except OSError as error:
        raise CouldNotRun(str(path), f"cannot be written: {error.strerror}", DOC, "Is there room?") from None
    return path


def read(path: str | os.PathLike) -> Proof:
    """A proof from its folder or its proof.json. Raises InputError, CouldNotRun."""
    path = Path(path)
    path = path / PROOF_FILE if path.is_dir() else path
    try:
        document = json.loads(path.read_bytes())
        if document["schema"] != SCHEMA:
            raise ValueError(document["schema"])
        steps = tuple(_step(item) for item in document["steps"])
        fields = {key: tuple(value) if isinstance(value, list) else value for key, value in document.items() if key not in OF_PROOF}
        return Proof(steps=steps, **fields)
    except OSError as error:
        raise CouldNotRun(str(path), f"cannot be read: {error.strerror}", DOC, "") from None
    except (ValueError, KeyError, TypeError):
        raise InputError(str(path), f"is no proof ({SCHEMA})", DOC, "headrace prove writes one.") from None


def _step(item: dict) -> Step:
    made = {key: value for key, value in item.items() if key not in OF_STEP}
    for key, kind in (("full", Configuration), ("configuration", Configuration), ("predicted", Predicted), ("measured", Measured)):
        if made[key] is not None:
            made[key] = kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in made[key].items()})
    return Step(**made)
