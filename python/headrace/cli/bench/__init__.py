"""Commands of `headrace bench`."""
