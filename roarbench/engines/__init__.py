"""Where jobs run: an engine takes jobs and gives outcomes, and knows nothing of what they do."""
