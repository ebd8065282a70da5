"""Questions of views whose modules are imported late."""

from __future__ import annotations

from typing import Annotated

import msgspec

from headrace.ui.answers import Ask, AskUpload

_Text = Annotated[str, msgspec.Meta(max_length=2_000)]
MOST_WORKERS = 1_024  # replica_parallel_workers of MySQL


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """A question without parts."""


class AskDoctor(AskUpload, kw_only=True):
    """A recording to be judged, and today's storage where it does not say."""

    storage: str = ""


class AskProof(msgspec.Struct, forbid_unknown_fields=True):
    """A question for a proof: `name` of one in the folder of this user's proofs, or `file`, a
    proof.json that was dropped into the page."""

    name: _Text = ""
    file: _Text = ""


class AskReplica(Ask, kw_only=True):
    """A question about a replica behind a database. `storage`: the source's; `replica`: its own;
    `workers`: None is as its version has it."""

    storage: _Text
    replica: _Text
    workers: Annotated[int, msgspec.Meta(ge=0, le=MOST_WORKERS)] | None = None
