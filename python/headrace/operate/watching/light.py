"""Keeps libraries for tables out of memory until one is used: who watches a server needs none."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

# Large libraries that only files need: 25 MB and 20 MB, measured with polars 1 and numpy 2.
HEAVY = ("polars", "numpy")


class LateModule(ModuleType):
    """Stands for a library until one of its names is used; then imports it and has all its names.

    The standard library's LazyLoader loads at the next `import` already: that looks at `__spec__`.
    """

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        whole = importlib.import_module(self.__name__)
        self.__dict__.update(vars(whole))
        return getattr(whole, name)


def import_late() -> None:
    """Puts a LateModule into sys.modules for each library of HEAVY that is not loaded."""
    for name in HEAVY:
        spec = None if name in sys.modules else importlib.util.find_spec(name)
        if spec is not None:
            module = LateModule(name)
            module.__spec__ = spec
            sys.modules[name] = module
