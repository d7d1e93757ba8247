"""The model of a project, computed from labels, features and settings."""
