"""A labelling project at run time: its state, its model and the choice of the next item; no file, no web."""
