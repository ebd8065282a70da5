"""Reads files and services with measurements into time series."""
