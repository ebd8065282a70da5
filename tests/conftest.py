"""Settings of the property tests: no deadlines (machines are noisy), printed seeds, the same cases every time.

HYPOTHESIS_PROFILE=soak draws others and far more of them; HYPOTHESIS_PROFILE=quick fewer, for `make quick`.
"""

import os

from hypothesis import settings

settings.register_profile("usual", deadline=None, print_blob=True, derandomize=True)
settings.register_profile("quick", deadline=None, print_blob=True, derandomize=True, max_examples=10)
settings.register_profile("soak", deadline=None, print_blob=True, max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "usual"))

# Tests that look at tables set the width themselves; neither a developer's terminal nor a parallel runner may.
os.environ.pop("COLUMNS", None)
