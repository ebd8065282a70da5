"""Runs as they are kept: one folder each (store), and questions to all of them (query)."""
