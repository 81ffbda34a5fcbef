"""The importance estimators, and all that computes their maps."""
