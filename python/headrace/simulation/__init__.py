"""Simulations of a workload on a storage: demand in I/Os, databases, records replayed."""
