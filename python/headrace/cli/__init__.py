"""The `headrace` command: it reads options, calls the library and prints. It decides nothing.

main       the first lines that run: Ctrl-C, and the exit code
app        the table of commands, and what an error looks like
options    options and completions that commands share
output     what goes to stdout and stderr
inputs     workloads as they are typed
catalog    what volumes, instances and regions allowed and cost
reference  docs/reference/cli.md, made from the commands

model, workloads, lab, bench and servers hold the other commands by subject.
"""

INTERRUPTED = 130  # 128 + SIGINT, as shells count
INTERRUPTED_WORDS = "interrupted: unfinished results were not written"
