"""Readers of what a user points at: one module a format."""
