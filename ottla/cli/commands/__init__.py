"""The subcommands of `ottla`."""
