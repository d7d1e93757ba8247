"""Pages of reference that are written from the code: `make reference`. A test compares them with it."""
