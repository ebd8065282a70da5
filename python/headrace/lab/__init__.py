"""The lab: block devices of this machine that perform like EBS volumes, served by the daemon
headraced.

    place     where a lab is: data directory and socket
    wire      lines of JSON over the socket, and errors
    calls     every call as a method, and what it answers (generated from crates/protocol)
    client    class Lab: a connection with these calls
    launch    start and end the daemon and the exporter
    exporter  the metrics for Prometheus, served by a process without rights
    doctor    what a machine lacks
    metrics   rows as frames and rates
    watching  a reading a second; the end of a modification
    balances  credit balances in files

Linux only for `launch` and what it starts; importing works anywhere.
"""

from headrace.lab.client import Lab, notes
from headrace.lab.launch import Settings, down, foreground, up
from headrace.lab.place import Place, place
from headrace.lab.wire import LabRefused, NoLab

__all__ = ["Lab", "LabRefused", "NoLab", "Place", "Settings", "down", "foreground", "notes", "place", "up"]
