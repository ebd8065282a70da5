"""Estimates the gain of lifting a limit, the limit that binds next, and the change to make."""
