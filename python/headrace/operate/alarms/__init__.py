"""Reports findings as episodes: once when one has lasted for a minute, and once when it is over."""
