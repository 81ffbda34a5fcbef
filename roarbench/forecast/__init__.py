"""Foretell what a suite takes: count its work, measure or assume rates, put both into a plan."""
