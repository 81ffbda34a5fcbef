"""Hold the commands, one module for each group of the help."""
