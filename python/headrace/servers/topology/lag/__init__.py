"""Measures the lag of replicas by four clocks."""
