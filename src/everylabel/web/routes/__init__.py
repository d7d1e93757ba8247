"""The HTTP endpoints: `answers` change a project, `reading` does not."""
