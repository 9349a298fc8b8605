"""Commands that run until Ctrl-C."""
