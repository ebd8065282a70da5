"""The ground of the package: modules that all other rooms use.

core        the compiled core and its refusals
storage     the notation of storages, and their limits
units       units of bytes and time; days, moments and spans of time in words
caps        the names of the limits, and the words for them
checks      single values that a user gives; how values and results are shown
files       read with a limit of size, written as a whole; which tool a file comes from
processes   programs of others: run, watched, ended
signals     handlers of signals, for good or within a block
waiting     until something is so, for a limited time
machine     programs and memory of this machine
mounts      mounts of a process, as mountinfo lists them
settings    the environment variables that are read
documents   TOML files as msgspec structs, and their errors in words
"""
