"""Evidence of a server, its volumes and its host, alike from every source (decision 0018)."""
