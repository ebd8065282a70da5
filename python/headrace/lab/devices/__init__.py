"""Reads from the device of a volume.

initializing  every block that is not loaded from its snapshot yet
"""
