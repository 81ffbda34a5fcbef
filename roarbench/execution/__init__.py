"""Forecast and run a suite: find the missing runs, make their inputs, do the jobs and store the results."""
