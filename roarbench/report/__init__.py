"""Format analysed results as tables, figures and lists, for people and programs."""
