"""Reads files and services with measurements into time series.

recording    a measured file as text, and the numbers in it
clock        times as the tools print them
series       a measured file as a series of means
settings     settings and versions of servers by name
run_storage  what the storage of a run could give on its day
formats      recordings of iostat, vmstat, sar, CloudWatch and Prometheus, as workloads
remote       recordings that a Prometheus server or CloudWatch keeps
run_files    the measured files of a benchmark run
live         counters of a running server, its devices and its host
evidence     ticks of all of these
"""
