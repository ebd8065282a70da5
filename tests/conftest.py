"""Settings of the property tests: no deadlines (machines are noisy), printed seeds, the same cases every time; others and far more of them with
HYPOTHESIS_PROFILE=soak."""

import os

from hypothesis import settings

settings.register_profile("usual", deadline=None, print_blob=True, derandomize=True)
settings.register_profile("soak", deadline=None, print_blob=True, max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "usual"))

# Tests that look at tables set the width themselves; neither a developer's terminal nor a parallel runner may.
os.environ.pop("COLUMNS", None)
