"""The HTTP API and the labelling page."""
