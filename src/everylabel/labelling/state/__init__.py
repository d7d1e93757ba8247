"""The state of a project: a function of the events of its log."""
