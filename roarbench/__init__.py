"""Judges feature-importance estimators by experiment: remove and retrain."""
