"""The ground everything stands on: what belongs to no question a user asks.

core        the compiled core and its refusals
storage     the notation of storages, and their limits
units       units of bytes and time
caps        the names of the limits, and the words for them
checks      single values that a user gives
files       read with a limit of size, written as a whole
clocks      days, moments and spans of time, and their words
file_kinds  which tool a file comes from
processes   programs of others: run, watched, ended
machine     programs and memory of this machine
settings    the environment variables that are read
documents   TOML files as msgspec structs, and their errors in words
shown       how results look in Python
"""
