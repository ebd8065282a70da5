"""Freezes filesystems so that they are thawed whatever happens."""
