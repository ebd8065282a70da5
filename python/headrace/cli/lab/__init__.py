"""Commands of the lab and its volumes."""
