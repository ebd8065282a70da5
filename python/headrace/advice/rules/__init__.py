"""Rules: from a situation to a value and its reason, one function for each parameter.

Their general texts stand in parameters.toml.
"""

from headrace.advice.rules.io import HOST, IO
from headrace.advice.rules.log import LOG
from headrace.advice.rules.memory import MEMORY
from headrace.advice.rules.myrocks import MYROCKS
from headrace.advice.rules.replication import REPLICATION
from headrace.advice.situation import Rule

RULES: dict[str, Rule] = MEMORY | IO | LOG | REPLICATION | MYROCKS | HOST

__all__ = ["RULES"]
