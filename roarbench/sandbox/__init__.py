"""Runs a submission, somebody's unknown code, where it can touch nothing (docs/submissions.md)."""
