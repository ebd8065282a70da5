"""What was measured, as time series.

formats      recordings of iostat, vmstat, sar and CloudWatch, as workloads
run_files    the measured files of a benchmark run
live         samplers of a running server
settings     settings and versions of servers known by name
"""
