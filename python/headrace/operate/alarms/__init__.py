"""Tells somebody of a finding: once when it has lasted for a while, and once when it is over."""
