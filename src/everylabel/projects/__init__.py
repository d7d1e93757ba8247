"""A project on disk or in a database: its source, features, options and log."""
