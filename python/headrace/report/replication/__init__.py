"""Replicas in words, tables and pages. Takes results; runs nothing."""
