"""Carries out the advised changes with tools that people know, and takes them back."""
