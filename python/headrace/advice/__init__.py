"""Settings of a MySQL server for its storage, each with reason, source, risk and effect.

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
