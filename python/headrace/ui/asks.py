"""Questions of the page as its server reads them, without the code that answers them."""

from __future__ import annotations

from typing import Annotated

import msgspec

MOST_WORKERS = 1_024  # replica_parallel_workers of MySQL
_Text = Annotated[str, msgspec.Meta(max_length=2_000)]
_Settings = Annotated[dict[str, object], msgspec.Meta(max_length=100)]


class Ask(msgspec.Struct, forbid_unknown_fields=True):
    """A question about a workload."""

    workload: _Text
    settings: _Settings = {}


class AskRun(Ask, kw_only=True):
    """A question about a database on a storage."""

    storage: _Text


class AskUpload(msgspec.Struct, forbid_unknown_fields=True):
    """A file that was dropped into the page."""

    name: _Text
    text: str


class AskStudy(msgspec.Struct, forbid_unknown_fields=True):
    """A question for a published experiment, repeated on the model."""

    name: _Text


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """A question without parts."""


class AskDoctor(msgspec.Struct, forbid_unknown_fields=True):
    """A recording to be judged: its `name` and `text`, or `file`, one that was judged before.
    `storage`: today's, where the recording does not say."""

    name: _Text = ""
    text: str = ""
    file: _Text = ""
    storage: _Text = ""


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
