"""Judges which limit binds, what clients feel of it, what lifting it brings, and which is next."""
