"""Copies of a running MySQL or MariaDB server, whatever they are for.

copy        the protocol: a method takes a copy of a source into a destination
methods     the five of them: dump, mariabackup, clone, snapshot, files
source      the server that is copied; position: how far its history is in a copy
locks       commits held back for a moment, and the position of that moment
grants      what a dump's account may not see
pipeline    programs joined by pipes: copy, pack, encrypt
folders     ids of copies, and folders with their locks
retention   which copies go
"""
