"""The model of a project: a function of labels, features and settings."""
