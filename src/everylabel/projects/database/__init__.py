"""The log of a project in its database: tables, seal, the one writer; copies, and mending."""
