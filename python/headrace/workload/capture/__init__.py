"""What a live server does, second by second, read without disturbing it.

address   which server, as whom: addresses without passwords in them, connections, errors in words
record    a capture from beginning to end: RUN.toml and its files
profile   what the server is: version, engine, cache, settings, size of its data
latency   what performance_schema knows of response times
sampler   SHOW GLOBAL STATUS, /proc/diskstats and the host, once a second, each in a thread of its own

>>> from headrace.workload.capture import parse_address
>>> parse_address("mysql://watcher@db.example:3307/shop").label
'mysql://watcher@db.example:3307/shop'
"""

from headrace.workload.capture.address import Address, Secret, connect, parse_address, write_client_file
from headrace.workload.capture.record import Captured, Question
from headrace.workload.capture.record import capture as capture_run
from headrace.workload.capture.sampler import Sampler, Samples, write_disk_csv, write_status_csv

__all__ = [
    "Address",
    "Captured",
    "Question",
    "Sampler",
    "Samples",
    "Secret",
    "capture_run",
    "connect",
    "parse_address",
    "write_client_file",
    "write_disk_csv",
    "write_status_csv",
]
