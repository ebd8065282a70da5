"""Backups of MySQL and MariaDB: taken, streamed, restored to any moment, proved, and kept.

targets/   where they lie: a folder, or a bucket behind the S3 API
manifest   what a backup is; sealed documents
copying    takes a backup, by a method of servers/copies
unfinished what killed runs left behind: resumed, or removed
history/   the binary log: its events, its archive, the stream, restores to a moment
restore    onto a new server, and the replay
checking   every byte against its checksum
"""
