"""The pages of the leaderboard; each module builds the template fields of a page from records."""
