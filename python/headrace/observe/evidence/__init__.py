"""Collects evidence of a server, its volumes and its host as ticks, alike from every source
(decision 0018).

model     Tick (an interval), Evidence (frames of them), the facts of volumes, server and source
limits    the limits that hold for a storage on its instance
live      LiveSource: lab, devices and server, a tick a second; `collect` makes evidence of it
volumes   readers of volumes: the lab's rows, the statistics page, the kernel's counters
server    reader of a server: one statement a second; counters: its counters as rates
aws       describe-volumes and CloudWatch
files     captured folders; recordings of iostat, sar, vmstat, CloudWatch, Prometheus
evidence_file   evidence saved and read back
"""
