"""everylabel behind the interfaces of other libraries, one module a library; docs/ecosystem.md has examples.

A module imports its library when it is itself imported, and nothing else here does.
"""
