"""Check a submitted estimator, one Python file, and run it where it can touch nothing."""
