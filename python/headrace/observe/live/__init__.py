"""Samples a live server second by second, without disturbing it."""
