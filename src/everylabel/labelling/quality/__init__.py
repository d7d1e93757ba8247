"""Quality of the model and of the labels."""
