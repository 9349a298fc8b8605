"""`python -m ottla.cli`, for where the installed command is not on the path."""

from ottla.cli.main import main

main()
