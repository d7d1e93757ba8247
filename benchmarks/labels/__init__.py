"""Labels needed by the page, compared with the alternatives of a user: `make bench NAME=labels`.

A cell is one learning curve of one arm (method) on one dataset and seed. All arms of a dataset and seed have
the same pool, test data and true labels, so that they are paired. Cells are stored in a folder, one file per
arm, and are not run again; after an interruption, repetitions of all datasets are complete.
"""
