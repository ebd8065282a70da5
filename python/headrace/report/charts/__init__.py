"""Altair charts, made from frames and results. Nothing here reads a file or runs anything."""
