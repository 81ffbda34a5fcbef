"""Offer all of roarbench as commands."""
