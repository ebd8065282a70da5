"""Rules: from a situation to a value and its reason, one function a parameter. What they say in general stands in parameters.toml."""

from headrace.advice.rules.answer import Answer, Rule
from headrace.advice.rules.host import HOST
from headrace.advice.rules.io import IO
from headrace.advice.rules.log import LOG
from headrace.advice.rules.memory import MEMORY
from headrace.advice.rules.myrocks import MYROCKS
from headrace.advice.rules.replication import REPLICATION

RULES: dict[str, Rule] = MEMORY | IO | LOG | REPLICATION | MYROCKS | HOST

__all__ = ["RULES", "Answer", "Rule"]
