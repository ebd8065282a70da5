"""The measured files of a benchmark run, each read into a series on its own clock."""
