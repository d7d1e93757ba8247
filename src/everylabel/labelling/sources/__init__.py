"""Labels of sources that are not fully trusted: a language model, an old classifier, a crowd, given labels.

A source has a name and says, of some items, a class, with or without a score (`Suggestions`). People's
labels are what it is measured against. Four modules, each a pure function of labels, suggestions and
features:
- `reliability` : a source's confusion matrix, and its accuracy with an interval that is valid at all times
- `teaching` : the head trained on people's labels and on suggestions as soft targets, jointly with
  `reliability`
- `consensus` : the class of items with several answers, from the answerers' confusion matrices and the head
- `review` : given labels by their probability of being wrong, and how many are wrong

A source whose labels say nothing about the class has a confusion matrix with rows that are all alike; its
soft targets are then the head's own probabilities, which teach nothing. `teaching` leaves out a source that
is such a one with a probability above .8. `benchmarks/sources.py` measures all four; no page or command
uses `teaching.balance` yet.
"""
