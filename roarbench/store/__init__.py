"""The two places where state rests: rankings on disk, results in a database."""
