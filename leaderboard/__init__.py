"""The leaderboard: the results store as pages. It reads, runs nothing and never reaches torch."""
