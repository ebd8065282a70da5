"""Proofs: what was predicted and then measured on the lab, as `headrace prove --show` shows it.
Imported when it is first asked: its report brings the library that draws."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

from headrace.base import settings
from headrace.base.checks import quote_value, suggest_nearest
from headrace.errors import HeadraceError
from headrace.experiment.proof import PROOF_FILE, Proof, Step, read
from headrace.report import proof as proof_report
from headrace.ui.answers import make_plain_view
from headrace.ui.asks import AskProof
from headrace.ui.opening import OpenedFiles
from headrace.ui.spelling import refuse, spell_command

# Proofs that are listed, the newest first: a screen or two.
MOST_LISTED = 50


def list_proofs(_: object) -> dict[str, object]:
    """Returns the proofs of this user, the newest first, each with its source and its verdict."""
    rows = [
        {"name": folder.name, "source": proof.source, "began_at": proof.began_at, "holds": proof.holds}
        for folder, proof in _read_proofs()
    ]
    return {"folder": str(_get_folder()), "proofs": rows}


def show_proof(files: OpenedFiles, ask: AskProof) -> dict[str, object]:
    """Returns a proof's view, and each configuration with its predicted and measured course. Raises
    InputError."""
    if ask.file:
        opened = files.find(ask.file, "proof")
        proof, place = cast(Proof, opened.value), opened.name
    else:
        folders = {folder.name: (folder, proof) for folder, proof in _read_proofs()}
        if ask.name not in folders:
            raise refuse.input(quote_value(ask.name), "is not a proof of this user", suggest_nearest(ask.name, folders))
        folder, proof = folders[ask.name]
        place = str(folder)
    return {
        "view": make_plain_view(proof_report.build_view(proof)),
        "warmup_s": proof.warmup_s,
        "steps": [_describe_step(step) for step in proof.steps],
        "commands": [spell_command(["prove", "--show", place])],
    }


def _get_folder() -> Path:
    return Path(settings.get_folder("HEADRACE_PROOFS"))


def _read_proofs() -> Iterator[tuple[Path, Proof]]:
    """Yields folders and their proofs, the newest first; what cannot be read is left out."""
    folder = _get_folder()
    names = sorted((path.parent for path in folder.glob(f"*/{PROOF_FILE}")), reverse=True) if folder.is_dir() else []
    for path in names[:MOST_LISTED]:
        try:
            yield path, read(path)
        except HeadraceError:
            continue


def _describe_step(step: Step) -> dict[str, object]:
    """Returns a step as the page draws it, rates in transactions a second; None for what was not
    predicted or measured."""
    predicted, measured = step.predicted, step.measured
    return {
        "name": proof_report.describe_step(step),
        "predicted": None if predicted is None else predicted.tps,
        "low": None if predicted is None else predicted.tps_low,
        "high": None if predicted is None else predicted.tps_high,
        "measured": None if measured is None else measured.tps,
        "predicted_series": [] if predicted is None else list(predicted.series),
        "measured_series": [] if measured is None else list(measured.series),
    }
