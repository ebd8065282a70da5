"""Remembers the contents of files that a browser sent, by their content's digest."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from typing import Generic, TypeVar

from headrace.base.checks import quote_value
from headrace.ui.spelling import refuse

T = TypeVar("T")


class RememberedFiles(Generic[T]):
    """Remembers the newest files. A browser sends a forgotten one again."""

    def __init__(self, most: int) -> None:
        """Sets the number of files that are remembered at most."""
        self._most = most
        self._files: OrderedDict[str, T] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, content: bytes, file: T) -> str:
        """Remembers the value that was read from `content` and returns its key, the SHA-256 of the
        content; the oldest beyond the limit is forgotten."""
        key = hashlib.sha256(content).hexdigest()
        with self._lock:
            self._files[key] = file
            self._files.move_to_end(key)
            while len(self._files) > self._most:
                self._files.popitem(last=False)
        return key

    def find(self, key: str) -> T:
        """Returns the value of a key. Raises InputError if it is not remembered."""
        with self._lock:
            file = self._files.get(key)
        if file is None:
            rule, hint = "is not a file that this page was given", "Drop the file into the page again."
            raise refuse.input(quote_value(key[:20]), rule, hint)
        return file
