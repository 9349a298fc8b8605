"""`python -m ottla.testing` is `ottla fake`."""

import sys

from ottla.cli.main import main

if __name__ == "__main__":
    main(["fake", *sys.argv[1:]])
