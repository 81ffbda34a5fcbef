"""The pages of the leaderboard; a function for each builds the fields of its template from records."""
