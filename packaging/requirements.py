"""Print the requirements of the package and of its extras, a line each, from pyproject.toml.

requirements.py "" charts    what every installation has, and the extra `charts`
requirements.py lab test     those extras alone; an extra that names others stands for them
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def requirements_of(extra: str) -> Iterator[str]:
    """Yield the requirements of an extra ("": of every installation), with those of extras that it names (`headrace[a,b]`)."""
    for requirement in PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]:
        others = re.fullmatch(r"headrace\[(.+)\]", requirement)
        if others is None:
            yield requirement
            continue
        for other in others[1].split(","):
            yield from requirements_of(other.strip())


if __name__ == "__main__":
    print("\n".join(requirement for extra in sys.argv[1:] for requirement in requirements_of(extra)))
