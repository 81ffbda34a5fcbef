"""Computations on arrays: rank and remove features, augment, train, and build networks. No access to a store."""
