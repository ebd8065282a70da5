"""Freezing filesystems so that they are thawed whatever happens.

filesystems  which filesystem a path is on, which device and which members are below it
watchdog     the program that freezes and thaws; it outlives the process that asked it
freeze       that process's side
"""
