"""Proofs in the page: those of this user, and one that was dropped in, as `headrace prove --show` shows them."""

from __future__ import annotations

import base64
import json
import shlex
from dataclasses import replace
from typing import cast

import pytest
from samples import proof

from headrace.errors import InputError
from headrace.experiment.proof import write
from headrace.ui.asks import AskProof, Nothing
from headrace.ui.opening import AskOpen, OpenedFiles
from headrace.ui.proofs import list_proofs, show_proof


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A folder of proofs: two that can be read, one that cannot, and a file."""
    monkeypatch.setenv("HEADRACE_PROOFS", str(tmp_path))
    for name, tps in (("20261101-1", 98.0), ("20261102-2", 50.0)):
        (tmp_path / name).mkdir()
        write(replace(proof(name, tps), folder=str(tmp_path / name)))
    (tmp_path / "20261103-3").mkdir()
    (tmp_path / "20261103-3/proof.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("")
    return tmp_path


def test_proofs_are_listed_the_newest_first(store):
    listed = cast("list[dict]", list_proofs(Nothing())["proofs"])
    assert [(row["name"], row["holds"]) for row in listed] == [("20261102-2", False), ("20261101-1", True)]


def test_without_proofs_there_are_none(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_PROOFS", str(tmp_path / "none"))
    assert list_proofs(Nothing()) == {"folder": str(tmp_path / "none"), "proofs": []}
    assert not (tmp_path / "none").exists()  # the page makes no folder


def test_a_proof_is_what_its_command_shows(store, call):
    answer = show_proof(OpenedFiles(), AskProof("20261102-2"))
    code, out, err = call(*shlex.split(answer["commands"][0])[1:], "--output", "json")
    assert code == 1, err
    printed = json.loads(out)
    steps = cast("list[dict]", answer["steps"])
    assert [step["measured"] for step in steps] == [step["measured"]["tps"] for step in printed["steps"]]
    assert steps[1]["predicted"] == printed["steps"][1]["predicted"]["tps"] and steps[0]["predicted"] is None
    assert len(steps[1]["predicted_series"]) == len(steps[1]["measured_series"]) == 70
    # The title is the first sentence of the verdict without its full stop, and a figure stays in a line with its unit.
    text = json.dumps(answer["view"], ensure_ascii=False).replace("\u00a0", " ")
    assert all(sentence in text for sentence in printed["verdict"].rstrip(".").split(". "))


def test_a_dropped_proof_is_the_same(store):
    files = OpenedFiles()
    content = (store / "20261101-1/proof.json").read_bytes()
    opened = files.open(AskOpen("proof.json", base64.b64encode(content).decode()))
    assert opened["kind"] == "proof"
    dropped, listed = show_proof(files, AskProof(file=opened["file"])), show_proof(files, AskProof("20261101-1"))
    assert dropped["view"] == listed["view"] and dropped["steps"] == listed["steps"]


@pytest.mark.parametrize("name", ["", "..", "/etc", "20261103-3", "20261101-1/../20261102-2", "notes.txt"])
def test_a_proof_is_named_and_not_looked_for(store, name):
    with pytest.raises(InputError, match="is not a proof of this user"):
        show_proof(OpenedFiles(), AskProof(name))
