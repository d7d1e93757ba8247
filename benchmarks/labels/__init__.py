"""How far a label goes, against everything else a user could pick: `make bench NAME=labels`.

A cell is one learning curve of one arm on one set and seed; all arms of a set and seed have the same pool,
the same test data and the same truth, so that they are paired. Cells are kept in a folder, one file an arm,
and are not run again: any interruption leaves whole repetitions of all sets.
"""
