"""Compute a leaderboard's statistics from stored correctness bits with NumPy and SciPy, without torch or a store."""
