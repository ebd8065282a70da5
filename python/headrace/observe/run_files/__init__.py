"""The measured files of a benchmark run, each read into a series on its own clock.

sysbench     transactions a second: raw output or CSV
status       samples of SHOW GLOBAL STATUS
disk         iostat and vmstat: disks, and busy shares of the processors
counters     samples of /proc/diskstats
align        one time axis: clocks, else a common beginning and correlation
"""
