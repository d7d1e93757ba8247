"""The one family of errors this package raises on bad input."""


class EverylabelError(ValueError):
    """Bad input, told in full: the argument, what came, what is expected, what to do.

    It is a `ValueError`, so code that knows nothing of everylabel can catch it.
    """
