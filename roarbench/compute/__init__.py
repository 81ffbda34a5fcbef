"""Computations on arrays: rank and remove features, augment images, build and train networks. Nothing reads a store."""
