"""How to set a MySQL server up for its storage: each setting with its reason, source, risk and, where the simulator can, its effect.

    situation   storage in sustained rates, memory, processors, workload
    rules/      from a situation to a value, one function a parameter
    table       parameters.toml (what is known of each) and names.csv (what it is called on which server)
    effects     the workload's transactions a second with a setting and without it
    option_files, current     values of a my.cnf (as the server reads it) or of a live server
    output      my.cnf, unified diff

>>> from headrace.advice import tuned_settings
>>> tuned_settings(storage="gp3:500:6000", memory_gib=16, flavor="mysql", version="8.0.36")["innodb_flush_method"]
'O_DIRECT'
"""

from headrace.advice.advising import advise, normalised, tuned_settings
from headrace.advice.model import RISKS, Advice, Finding, Server, server_of

__all__ = ["RISKS", "Advice", "Finding", "Server", "advise", "normalised", "server_of", "tuned_settings"]
