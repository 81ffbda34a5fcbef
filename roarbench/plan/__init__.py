"""Suites, cells, runs and recipes as frozen records, and the keys of runs."""
