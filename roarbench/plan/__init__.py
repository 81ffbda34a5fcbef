"""Hold what a suite consists of: recipes, suites, cells and runs as frozen records, and how a run gets its key."""
