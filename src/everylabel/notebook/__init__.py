"""The page from Python: `everylabel.label` in a notebook or a script, beside the code that goes on."""
