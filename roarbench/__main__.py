"""Let `python -m roarbench` be the command line."""

from roarbench.cli.main import main

main()
