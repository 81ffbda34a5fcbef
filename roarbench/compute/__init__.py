"""Compute on arrays: rank features, remove them, augment, train; build networks. No store is known here."""
