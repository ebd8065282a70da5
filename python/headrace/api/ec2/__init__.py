"""Handlers of EC2."""
