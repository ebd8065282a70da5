"""Settings of the property tests: no deadlines (machines are noisy), printed seeds, the same cases every time.

HYPOTHESIS_PROFILE=soak draws others and far more of them; HYPOTHESIS_PROFILE=quick fewer, for `make quick`.
"""

import os
import signal

import pytest
from hypothesis import settings

settings.register_profile("usual", deadline=None, print_blob=True, derandomize=True)
settings.register_profile("quick", deadline=None, print_blob=True, derandomize=True, max_examples=10)
settings.register_profile("soak", deadline=None, print_blob=True, max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "usual"))

# A shell that starts the tests in the background has them ignore SIGINT, and with them the programs that they interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests that look at tables set the width themselves; neither a developer's terminal nor a parallel runner may.
os.environ.pop("COLUMNS", None)

# Tests that take seconds each: whole programs, examples of the pages, published studies. `make quick` leaves them out.
SLOW = ("unit/house/test_docs.py", "unit/house/test_install.py", "unit/studies/", "unit/report/test_results.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what is slow by where it lies."""
    for item in items:
        if any(part in item.nodeid for part in SLOW) or item.nodeid.startswith("python/headrace/studies"):
            item.add_marker(pytest.mark.slow)
