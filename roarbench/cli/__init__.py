"""The command line of roarbench."""
