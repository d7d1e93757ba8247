"""The endpoints, a file for each kind: what people do, classes, what can be seen, files and pictures."""
