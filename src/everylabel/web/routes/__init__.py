"""The endpoints, a file for each kind: answers, classes, queues, reading, files and pictures."""
