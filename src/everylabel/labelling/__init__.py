"""The state of a labelling project: events, who said what, the model, the next instance; no file, no web."""
