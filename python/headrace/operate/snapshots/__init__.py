"""Snapshots of a running server's volumes that are sure to open again."""
