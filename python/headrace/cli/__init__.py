"""The command line: one file per command group, no logic. `main` wires them and turns errors into exit codes."""
