"""Adapters for other libraries, one module per library; docs/ecosystem.md has examples.

Importing a module imports its library, and no other.
"""
