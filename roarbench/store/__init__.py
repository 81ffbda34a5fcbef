"""Persistent state: rankings and networks on disk, results in a database."""
