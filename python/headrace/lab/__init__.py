"""The lab: block devices of this machine that perform like EBS volumes, served by the daemon
headraced.

    place     where a lab is: data directory and socket
    wire      lines of JSON over the socket, and errors
    calls     every call as a method, and what it answers (generated from crates/protocol)
    client    class Lab: a connection with these calls
    launch    start and end the daemon and the exporter
    exporter  serves metrics for Prometheus, without rights
    doctor    what a machine lacks
    metrics   rows as frames and rates
    waiting   the end of a modification and of a snapshot
    devices   what is read from the devices of volumes: statistics, blocks of snapshots
    balances  credit balances in files

Linux only for `launch` and what it starts; importing works anywhere.
"""

import lazy_loader

# The public names and where they live stand in __init__.pyi: `--help` of a command imports none of
# them.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
