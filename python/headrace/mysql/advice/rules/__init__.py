"""Rules: from a situation to a value and its reason, one function a parameter. What they say in general stands in parameters.toml."""

from headrace.mysql.advice.rules.answer import Answer, Rule
from headrace.mysql.advice.rules.host import HOST
from headrace.mysql.advice.rules.io import IO
from headrace.mysql.advice.rules.log import LOG
from headrace.mysql.advice.rules.memory import MEMORY
from headrace.mysql.advice.rules.myrocks import MYROCKS
from headrace.mysql.advice.rules.replication import REPLICATION

RULES: dict[str, Rule] = MEMORY | IO | LOG | REPLICATION | MYROCKS | HOST

__all__ = ["RULES", "Answer", "Rule"]
