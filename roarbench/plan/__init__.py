"""Define suites, cells, runs and recipes as frozen records, and compute the keys of runs."""
