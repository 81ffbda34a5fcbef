"""The pages of the leaderboard, one module each: from records to template fields."""
