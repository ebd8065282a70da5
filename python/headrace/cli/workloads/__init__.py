"""Commands that make workloads: from knowledge, recordings, live servers and measured runs."""
