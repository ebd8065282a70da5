"""Rules: from a situation to a value and its reason, one function for each parameter.

Their general texts stand in parameters.toml, and so do values that depend on nothing.
"""

from headrace.advice.rules.io import HOST, IO
from headrace.advice.rules.log import LOG
from headrace.advice.rules.memory import MEMORY
from headrace.advice.rules.myrocks import MYROCKS
from headrace.advice.rules.replication import REPLICATION
from headrace.advice.situation import Rule, RuleValue
from headrace.advice.table import ServerParameter, read_parameters


def _make_fixed_rule(parameter: ServerParameter) -> Rule:
    """Returns the rule of a parameter whose value depends on nothing."""
    answer = RuleValue(parameter.value, parameter.why, settable=parameter.settable)
    return lambda situation: answer


FIXED: dict[str, Rule] = {
    name: _make_fixed_rule(parameter) for name, parameter in read_parameters().items() if parameter.value
}
RULES: dict[str, Rule] = FIXED | MEMORY | IO | LOG | REPLICATION | MYROCKS | HOST

__all__ = ["RULES"]
