"""A test's folder made reachable for other users."""

from __future__ import annotations

import tempfile
from pathlib import Path


def make_reachable(folder: Path) -> None:
    """Let every user enter `folder` and the folders around it, up to that of all temporary files:
    two of them where pytest runs in one process, three where it runs in several."""
    top = Path(tempfile.gettempdir())
    for place in (folder, *folder.parents):
        if place == top or not place.is_relative_to(top):
            return
        place.chmod(0o755)
