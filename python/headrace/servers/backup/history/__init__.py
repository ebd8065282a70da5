"""The history of a server: its binary log, kept without a gap.

events    the binary log as bytes
archive   it in a target: pieces, their index, whole timelines
stream    as it is written, into the archive
moments   which transactions a restore to a GTID or a moment takes
"""
