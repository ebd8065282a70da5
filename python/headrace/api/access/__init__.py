"""Decides whether a caller may do what a request asks for."""
