"""The event log of a project: the kinds of events, the databases that store them, locks and backups."""
