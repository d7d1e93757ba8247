"""The HTTP endpoints, one module a group: answers, classes, queues, reading, downloads."""
