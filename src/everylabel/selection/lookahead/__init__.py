"""Look-ahead: choose by the model's quality after a label, either expected or with the true label known."""
