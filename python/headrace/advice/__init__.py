"""Settings of a MySQL server for its storage, each with reason, source, risk and effect.

>>> from headrace.advice import tune_settings
>>> tune_settings(storage="gp3:500:6000", memory_gib=16, flavor="mysql", version="8.0.36")["innodb_flush_method"]
'O_DIRECT'
"""

from headrace.advice.advising import advise, build_situation, list_advised_settings, tune_settings
from headrace.advice.model import AdvisedSetting, parse_server

__all__ = [
    "AdvisedSetting",
    "advise",
    "list_advised_settings",
    "parse_server",
    "build_situation",
    "tune_settings",
]
