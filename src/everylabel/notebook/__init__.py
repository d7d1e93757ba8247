"""The labelling page from Python: `everylabel.label` in a notebook or a script."""
