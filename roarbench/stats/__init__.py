"""Statistics of a leaderboard from stored correctness bits: NumPy and SciPy, without torch and without a store."""
