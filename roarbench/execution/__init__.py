"""Forecast and run a suite: find what is missing, make its inputs, do the jobs, store the rows."""
