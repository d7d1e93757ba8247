"""skorch: a callback that puts a posterior on the last layer of the network it trains.

>>> posterior = LastLayerPosterior()
>>> net = NeuralNetClassifier(module, criterion=CrossEntropyLoss, callbacks=[("posterior", posterior)])
>>> net.fit(X, y)
>>> posterior.learn(net, X_new, y_new)  # net.predict_proba uses them at once, without another epoch
"""

from typing import Any

from everylabel.core import EverylabelError, Posterior, update
from everylabel.core.errors import need

callbacks: Any = need("skorch.callbacks", "skorch", "everylabel.integrations.skorch")

import torch  # noqa: E402

from everylabel.models.last_layer import LastLayer  # noqa: E402

__all__ = ["LastLayerPosterior"]


class LastLayerPosterior(callbacks.Callback):
    """A posterior over the last layer of a trained network, and updates of both, label by label.

    Parameters
    ----------
    layer : str, optional
        Name of the layer; default: the last linear one.
    likelihood, prior_precision
        As in `everylabel.laplace`; prior_precision corresponds to a weight decay of prior_precision/n.
    method, step_size
        How `learn` updates, as in `everylabel.update`.

    Attributes
    ----------
    head_ : everylabel.torch.LastLayer
    posterior_ : everylabel.Posterior

    Examples
    --------
    >>> import torch
    >>> from skorch import NeuralNetClassifier
    >>> from everylabel.integrations.skorch import LastLayerPosterior
    >>> posterior, inputs = LastLayerPosterior(), x.astype(np.float32)
    >>> net = NeuralNetClassifier(
    ...     torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)),
    ...     criterion=torch.nn.CrossEntropyLoss, max_epochs=5, verbose=0, callbacks=[("last", posterior)])
    >>> net = net.fit(inputs[:100], y[:100])
    >>> posterior.learn(net, inputs[100:110], y[100:110])  # the network predicts with them
    """

    head_: LastLayer
    posterior_: Posterior

    def __init__(
        self,
        layer: str | None = None,
        likelihood: str = "gaussian",
        prior_precision: float = 1.0,
        method: str = "second_order",
        step_size: float | None = None,
    ) -> None:
        self.layer, self.likelihood, self.prior_precision = layer, likelihood, prior_precision
        self.method, self.step_size = method, step_size

    def on_train_end(self, net: Any, X: Any = None, y: Any = None, **_: Any) -> None:
        """Compute the posterior of the trained layer, in one pass over the training data."""
        self.head_ = LastLayer(net.module_, self.layer)
        self.posterior_ = self.head_.laplace(_batches(net, X, y), self.likelihood, self.prior_precision)

    def learn(self, net: Any, X: Any, y: Any) -> None:
        """Learn new labels in closed form, and write the new mean to the network."""
        if not hasattr(self, "posterior_"):
            raise EverylabelError(
                "the network is not trained yet; call net.fit first, with this callback in it"
            )
        loader = _batches(net, X, y)
        features = self.head_.features(loader).double()
        labels = torch.cat([torch.as_tensor(part) for _, part in loader]).to(features.device)
        self.posterior_ = update(self.posterior_, features, labels, self.method, self.step_size)
        self.head_.write(self.posterior_)


def _batches(net: Any, X: Any, y: Any) -> Any:
    """Return batches in order, as in the network's own validation."""
    return net.get_iterator(net.get_dataset(X, y), training=False)
