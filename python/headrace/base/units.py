"""Units, as factors: bytes in a KiB, MiB and GiB, seconds in an hour and a day, hours in a month of
the bill.

size_gib * GIB            bytes
throughput_mib_s * MIB    bytes a second
usd_hour * HOURS_PER_MONTH
"""

# IEC 80000-13.
KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

# Seconds.
MINUTE_S = 60
HOUR_S = 60 * MINUTE_S
DAY_S = 24 * HOUR_S
WEEK_S = 7 * DAY_S

# AWS quotes and bills months of 365 x 24 / 12 hours (AWS Pricing Calculator).
HOURS_PER_MONTH = 730.0

# Milliseconds and microseconds.
MS_PER_S = 1e3
US_PER_S = 1e6
US_PER_MS = 1e3
