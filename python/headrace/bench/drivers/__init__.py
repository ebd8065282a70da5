"""One file for each load: what it prepares, runs, checks and cleans up."""
