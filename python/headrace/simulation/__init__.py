"""What a workload meets on a storage: of I/Os (demand) and of a database in transactions (database)."""
