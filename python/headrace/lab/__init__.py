"""The lab: block devices of this machine that perform like EBS volumes, served by the daemon headraced.

    place     where a lab is: data directory and socket
    wire      lines of JSON over the socket, and errors
    client    class Lab: every call as a method
    answers   what they answer with
    launch    start and end the daemon
    doctor    what a machine lacks
    metrics   rows as frames and rates
    watching  a reading a second
    waiting   until a modification is completed
    balances  credit balances in files

Linux only for `launch` and what it starts; importing works anywhere.
"""

from headrace.lab.client import Lab, notes
from headrace.lab.launch import Settings, down, foreground, up
from headrace.lab.place import Place, place
from headrace.lab.wire import LabRefused, NoLab

__all__ = ["Lab", "LabRefused", "NoLab", "Place", "Settings", "down", "foreground", "notes", "place", "up"]
