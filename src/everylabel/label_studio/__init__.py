"""A backend for Label Studio that learns from every annotation at once.

Webhooks of Label Studio report annotations and tasks. Each of its projects is a project of ours, with a log,
a desk and a model. Reading its API every minute makes up for missed webhooks.
"""
