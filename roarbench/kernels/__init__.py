"""Compute on arrays: rank features, remove them, augment, train, stream, measure smoothness; no store is known here."""
