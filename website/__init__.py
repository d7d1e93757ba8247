"""Build the documentation site with Zensical, and write the reference pages from the code."""
