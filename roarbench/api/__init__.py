"""What `import roarbench` offers, one module for each part; names are found in `roarbench/__init__.py`."""
