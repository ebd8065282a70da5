"""Servers that follow each other: sources and replicas."""
