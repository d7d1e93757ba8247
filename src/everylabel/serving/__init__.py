"""The labelling page and its HTTP API: an event log, a model that follows it, and a server."""
