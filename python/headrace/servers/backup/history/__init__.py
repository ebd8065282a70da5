"""The history of a server: its binary log, archived without a gap."""
