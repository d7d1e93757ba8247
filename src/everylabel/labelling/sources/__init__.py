"""Labels of sources that are not fully trusted: a language model, an old classifier, a crowd, given labels.

A source has a name and suggests a class for some items, with or without a score (`Suggestions`). It is
measured against people's labels. Five modules, each a pure function of labels, suggestions and features:
- `reliability` : a source's confusion matrix, and its accuracy with an interval that is valid at all times
- `joint_training` : the head trained on people's labels and on suggestions as soft targets, jointly with
  `reliability`
- `evidence` : what suggestions say about the class of an item, combined with the head's prediction
- `consensus` : the class of items with several answers, from the answerers' confusion matrices and the head
- `review` : given labels by their probability of being wrong, and how many are wrong

A source whose labels say nothing about the class has a confusion matrix whose rows are all alike; its soft
targets are then the head's own probabilities, from which the head learns nothing. `joint_training` leaves out
a source if the probability of that is above .95. `benchmarks/sources.py` measures all of them.
"""
