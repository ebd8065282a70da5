"""Backups of MySQL and MariaDB: taken, streamed, restored to any moment, proved, and retained."""
