"""Run the command line as `python -m roarbench`."""

import sys

from roarbench.cli.main import main

sys.argv[0] = "roarbench"  # messages that suggest commands use this name of the program
main()
