"""`python -m headrace`: the command."""

try:
    from headrace.cli.main import run
except KeyboardInterrupt:  # in the few milliseconds before `run` catches it
    raise SystemExit(130) from None

run()
