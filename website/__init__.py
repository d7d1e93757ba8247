"""What makes the documentation site: its build by Zensical, and pages of reference written from the code."""
