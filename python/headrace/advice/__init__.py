"""Settings of a MySQL server for its storage, each with reason, source, risk and effect.

    advising     from storage, memory and workload to the settings; result: the answer and its forms
    situation    what the rules know: storage in sustained rates, memory, processors, workload
    rules/       from a situation to a value, one function for each parameter
    table        parameters.toml (what is known of each) and names.csv (its name on which server)
    effects      the workload by the simulator, and what a setting changes, in a sentence
    current      today's settings, of a live server or an option file, and what is wrong with them
    output       option file and unified diff; reference: the table of docs/reference/advice.md
    model        version of a server, advised setting, finding; values: how servers write values

>>> from headrace.advice import tuned_settings
>>> tuned_settings(storage="gp3:500:6000", memory_gib=16, flavor="mysql", version="8.0.36")["innodb_flush_method"]
'O_DIRECT'
"""

from headrace.advice.advising import advise, advised_settings, situation_of, tuned_settings
from headrace.advice.model import AdvisedSetting, server_of

__all__ = [
    "AdvisedSetting",
    "advise",
    "advised_settings",
    "server_of",
    "situation_of",
    "tuned_settings",
]
