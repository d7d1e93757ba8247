"""What lies on disk or in a database: a project, its features, its log."""
