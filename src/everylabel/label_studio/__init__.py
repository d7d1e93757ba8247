"""A backend for Label Studio that learns from every annotation, the moment it is made.

Label Studio tells by webhook what people do there; each of its projects is one of ours underneath, with a
log, a desk and a model. What it does not tell, or while we are away, is found by looking at its API now and
then.
"""
