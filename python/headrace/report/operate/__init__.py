"""Output of the operating commands: in words, as tables, as pages."""
