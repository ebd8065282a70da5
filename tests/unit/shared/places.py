"""Places of the repository and of the tests' data."""

from pathlib import Path

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests/unit/data"
