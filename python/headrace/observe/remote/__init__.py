"""Recordings that a service keeps, fetched as the documents that its own tools would write."""
