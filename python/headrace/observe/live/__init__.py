"""Samples a live server second by second, without disturbing it.

record    a capture from beginning to end: RUN.toml and its files
profile   what the server is: version, engine, cache, settings, size of its data
latency   what performance_schema knows of response times
sampler   SHOW GLOBAL STATUS, /proc/diskstats, the host and the lab's rows, each in a thread of its own
lab_rows  rows of volumes of the lab, kept up during a run
samples   what was sampled, and its rates
store     samples that grow, in parts on disk; as CSV
host      counters of this machine
nvme      the statistics page of an NVMe volume
"""
