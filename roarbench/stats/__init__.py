"""Statistics of a leaderboard from stored correctness bits, with NumPy and SciPy; no torch, no access to a store."""
