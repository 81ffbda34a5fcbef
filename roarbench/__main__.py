"""Run the command line as `python -m roarbench`."""

import sys

from roarbench.cli.main import main

sys.argv[0] = "roarbench"  # program name in suggested commands
main()
