"""What makes the documentation site: hooks of MkDocs, and pages of reference written from the code."""
