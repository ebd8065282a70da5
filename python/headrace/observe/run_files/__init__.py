"""The measured files of a benchmark run, each read into columns on its own clock.

sysbench     transactions a second: raw output or CSV
status       samples of SHOW GLOBAL STATUS
disk         iostat and vmstat        counters    samples of /proc/diskstats
processors   busy shares of the processors
align        one time axis: clocks, else a common beginning and correlation
"""
