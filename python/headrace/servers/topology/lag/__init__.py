"""Measures the lag of replicas by up to five clocks."""
