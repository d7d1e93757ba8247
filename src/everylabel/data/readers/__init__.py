"""Readers of a user's sources: one module per format."""
