"""Replicas measured on the lab."""
