"""Check submissions, which are estimators in one Python file each, and run them in a sandbox."""
