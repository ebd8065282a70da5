"""Pages of what was seen on a running server."""
