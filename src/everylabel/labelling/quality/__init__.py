"""How good the model and the labels are."""
