"""Where the repository and the tests' data lie."""

from pathlib import Path

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests/unit/data"
