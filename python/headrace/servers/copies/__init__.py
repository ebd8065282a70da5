"""Copies of a running MySQL or MariaDB server, whatever they are for."""
