"""The importance estimators, and the functions that compute their maps."""
