"""Look-ahead: what a label would change, expected or known."""
