"""A benchmark run: the tool, samples taken at the same time, one time line."""
