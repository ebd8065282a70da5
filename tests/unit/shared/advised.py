"""The advised settings of a server that is given by its flavor and version."""

from __future__ import annotations

from headrace.advice import AdvisedSetting, advised_settings, server_of, situation_of


def advised(storage: str, flavor: str, version: object, **more) -> list[AdvisedSetting]:
    """`more`: as for `situation_of`."""
    return advised_settings(situation_of(server_of(flavor, version), storage, **more))
