"""From measured runs to a workload in transactions, and how well it predicts a run."""
