"""Samples a live server second by second, without disturbing it.

record    a capture from beginning to end: RUN.toml and its files
profile   what the server is: version, engine, cache, settings, size of its data; response times
sampler   SHOW GLOBAL STATUS, /proc/diskstats, the host and the lab's rows, each in a thread of its own
samples   what was sampled, and its rates; samples that grow, rows of the lab kept up, CSV files
host      counters of this machine
nvme      the statistics page of an NVMe volume
"""
