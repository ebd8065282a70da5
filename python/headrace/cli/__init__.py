"""The `headrace` command: it reads options, calls the library and prints. It decides nothing."""

INTERRUPTED = 130  # 128 + SIGINT, as shells count
INTERRUPTED_WORDS = "interrupted: unfinished results were not written"
