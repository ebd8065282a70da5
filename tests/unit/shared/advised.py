"""The advised settings of a server that is given by its flavor and version."""

from __future__ import annotations

from headrace.advice import AdvisedSetting, build_situation, list_advised_settings, parse_server


def advised(storage: str, flavor: str, version: object, **more) -> list[AdvisedSetting]:
    """`more`: as for `build_situation`."""
    return list_advised_settings(build_situation(parse_server(flavor, version), storage, **more))
