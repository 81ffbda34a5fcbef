"""The importance estimators, and the code that computes their maps."""
