"""Let `python -m roarbench` be the command line."""

import sys

from roarbench.cli.main import main

sys.argv[0] = "roarbench"  # as commands are proposed
main()
