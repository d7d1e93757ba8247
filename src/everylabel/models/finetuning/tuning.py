"""`finetune`: train an encoder on labels, and decide by cross-validation whether to trust it.

n labelled items, k classes. For each fold the encoder is tuned without the fold's labels. The head (class
names and pool as prior) then predicts these labels twice: on frozen features, and on frozen and tuned ones
side by side. p (n, k) are its probabilities in either case, y the label of an item.
    p_T = softmax(log(p) / T)            T the temperature of least log loss, one for each case
    gain = log p_T[y] side by side - log p_T[y] on frozen features
    m = mean of gain over the labels, se = standard error of this mean
    trusted = m > se / 2
Why a temperature: the encoder has seen the labels of the other folds, so the head on tuned features is
overconfident, and its log loss may be worse although it is right more often.
Why folds: leave-one-out on tuned features is too good, since the encoder has seen all labels. Folds are drawn
without looking at labels, so that no item's label influences its own prediction.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logsumexp

from everylabel.core.checks import check_count
from everylabel.core.errors import EverylabelError
from everylabel.models.class_names import Phrases, phrases_of
from everylabel.models.classifier import LaplaceClassifier
from everylabel.models.finetuning.encoder import CACHE_BYTES, Encoder, States, TunedEncoder
from everylabel.models.finetuning.recipe import NameStates, Recipe, train_blocks, trained_share
from everylabel.models.scaling import linear_layer

Progress = Callable[[float, str], Any]  # called with the share that is done, and what is being done
POOL_ROWS = 600  # items, evenly spaced over the pool, from which the head's prior is estimated in a fold
LEAST = 8  # fewest labels that can be cross-validated
FOLDS = 3
TEMPERATURES = np.geomspace(0.5, 10, 31)


class Cancelled(EverylabelError):
    """Fine-tuning was stopped by its caller."""


@dataclass
class Finetuned:
    """An encoder after fine-tuning, its features, and whether to trust them.

    Attributes
    ----------
    trusted : bool
        Whether tuned features predicted held-out labels better, by more than half a standard error.
    log_loss, accuracy : dict
        Cross-validated, for "frozen" features and for "tuned" ones (side by side with the frozen ones); log
        loss of calibrated probabilities.
    frozen_proba, proba : array (n, k)
        Predictions of the labelled items by models that have not seen their labels: on frozen features, and
        on the features in use. Columns in the order of `classes` (`classifier()` sorts its classes).
    features, unlabelled, names
        Features in use (frozen and tuned ones side by side if trusted, else the frozen ones) of the labelled
        items, of the other items, and of the phrases of class names, by class.
    frozen, tuned : array (N, d)
        Features of all N items, labelled and unlabelled, by the encoder before and after.
    encoder : TunedEncoder
        Embeds new items, and can be saved.
    classes : list
    """

    encoder: TunedEncoder
    classes: list[Any]
    labelled: np.ndarray  # rows of items
    labels: np.ndarray  # their class numbers
    trusted: bool
    log_loss: dict[str, float]
    accuracy: dict[str, float]
    frozen_proba: np.ndarray
    tuned_proba: np.ndarray
    before: np.ndarray  # frozen features of all items, followed by those of the phrases of class names
    after: np.ndarray  # tuned features of the same
    phrase_classes: np.ndarray  # class number of each phrase
    names_hold: bool  # whether the labels confirm the class names
    seconds: float

    @property
    def proba(self) -> np.ndarray:
        return self.tuned_proba if self.trusted else self.frozen_proba

    @property
    def n_items(self) -> int:
        return len(self.before) - len(self.phrase_classes)

    @property
    def frozen(self) -> np.ndarray:
        return self.before[: self.n_items]

    @property
    def tuned(self) -> np.ndarray:
        return self.after[: self.n_items]

    @property
    def rows(self) -> np.ndarray:
        """Return the features in use of all items, followed by those of the phrases of class names."""
        return np.concatenate([self.before, self.after], axis=1) if self.trusted else self.before

    @property
    def all_features(self) -> np.ndarray:
        """Return the features in use of all items."""
        return self.rows[: self.n_items]

    @property
    def features(self) -> np.ndarray:
        return self.rows[self.labelled]

    @property
    def unlabelled(self) -> np.ndarray:
        return self.rows[np.setdiff1d(np.arange(self.n_items), self.labelled)]

    @property
    def phrase_features(self) -> np.ndarray:
        """Return the features in use of the phrases of class names."""
        return self.rows[self.n_items :]

    @property
    def names(self) -> dict[Any, np.ndarray] | None:
        return _by_class(self.phrase_features, self.phrase_classes, self.classes)

    def classifier(self) -> LaplaceClassifier:
        """Return the head on the features in use: class names and all items as its prior.

        If the encoder is trusted, `leave_one_out` is overoptimistic: use `proba`.
        """
        y = np.asarray(self.classes)[self.labels]
        head = LaplaceClassifier()
        return head.fit(
            self.features, y, unlabelled=self.all_features, names=self.names, classes=self.classes
        )

    def embed(self, items: Sequence[Any]) -> np.ndarray:
        """Return the features in use of new items."""
        return self.encoder.embed(items)

    def save(self, folder: Path | str) -> Path:
        """Write the encoder (`TunedEncoder.save`) with the result of cross-validation."""
        result = {
            "log_loss": self.log_loss,
            "accuracy": self.accuracy,
            "classes": [str(name) for name in self.classes],
            "labels": len(self.labels),
            "seconds": round(self.seconds, 1),
        }
        return self.encoder.save(folder, result)


def finetune(
    encoder: Any,
    texts: Sequence[Any],
    labels: Sequence[Any],
    *,
    names: Sequence[str] | Mapping[Any, Phrases] | None = None,
    unlabelled: Sequence[Any] | None = None,
    kind: str = "text",
    blocks: int | None = None,
    folds: int = FOLDS,
    recipe: Recipe | None = None,
    seed: int = 0,
    device: str | None = None,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
    cache_bytes: int = CACHE_BYTES,
) -> Finetuned:
    """Fine-tune an encoder on labelled items, and report whether cross-validation trusts the result.

    Parameters
    ----------
    encoder : str, Path, SentenceTransformer, or (processor, model) of transformers
        A folder or hub name of a BERT-like encoder (for images: ViT-like). It is not changed.
    texts, labels : sequences
        Labelled texts (or images), and the class of each.
    names : sequence of str, or dict
        Class names, or phrases by class. The model learns from them as long as the labels confirm them. They
        also name classes that have no label yet.
    unlabelled : sequence, optional
        Other items, such as the pool. They are embedded, and the prior is estimated from them.
    kind : {"text", "image"}
        The kind of items.
    blocks : int, optional
        Number of upper blocks to train; default: half of them, with more than 16 classes a third.
    folds : int
        Folds of the cross-validation. Each one tunes the encoder once more.
    recipe : Recipe, optional
        How the blocks are trained.
    seed : int
        Random seed of folds, batches and dropout.
    device : str, optional
        Device; default: the CPU, or the device of a given model.
    progress, cancelled : callables, optional
        progress(share, message) is called during the work. If cancelled() returns true, the work stops and
        raises `Cancelled`.
    cache_bytes : int
        Maximum size on disk of the hidden states below the trained blocks.

    Examples
    --------
    >>> texts = ["Who is she?", "Who wrote it?", "Who won?", "Who sang it?"]
    >>> texts += ["Where is it?", "Where are we?", "Where was he?", "Where did it end?"]
    >>> labels = ["person"] * 4 + ["place"] * 4
    >>> found = el.finetune("sentence-transformers/all-MiniLM-L6-v2", texts, labels)
    >>> found.proba.shape  # of models that have not seen the label
    (8, 2)
    >>> found.classifier().predict(found.embed(["Who came?"]))
    array(['person'], dtype='<U6')
    """
    labels = list(labels)
    if len(texts) != len(labels):
        raise EverylabelError(
            f"texts has {len(texts)} items and labels {len(labels)}; expected the same number"
        )
    phrases: dict[Any, Phrases] = {}
    if names is not None:
        phrases = dict(names if isinstance(names, Mapping) else dict.fromkeys(names, ()))
    classes = list(phrases) + sorted(set(labels) - set(phrases))
    numbers = {name: number for number, name in enumerate(classes)}
    items = [*texts, *(unlabelled or ())]
    if kind == "image" and names is not None:
        raise EverylabelError(
            "names are given with kind='image'; expected None: image encoders know no words"
        )
    if not isinstance(encoder, (str, Path)):
        encoder = deepcopy(encoder)
    own = Encoder(encoder, kind, trained_share(len(classes)) if blocks is None else blocks, device)
    tuner = Tuner(
        own,
        items,
        classes,
        None if names is None else phrases,
        progress=_part(progress, 0.0, 0.4),
        cancelled=cancelled,
        cache_bytes=cache_bytes,
    )
    known = {i: numbers[label] for i, label in enumerate(labels)}
    return tuner.tune(known, folds=folds, recipe=recipe, seed=seed, progress=_part(progress, 0.4, 1.0))


class Tuner:
    """Items with stored hidden states below the trained blocks, on which an encoder can be tuned repeatedly.

    Parameters
    ----------
    encoder : Encoder
    items : sequence
        Labelled or not; labels refer to them by position.
    classes : sequence
        All classes, in the order of their numbers.
    phrases : mapping, optional
        Phrases by class. The class name itself, as words, always comes first.
    """

    def __init__(
        self,
        encoder: Encoder,
        items: Sequence[Any],
        classes: Sequence[Any],
        phrases: Mapping[Any, Phrases] | None = None,
        *,
        progress: Progress | None = None,
        cancelled: Callable[[], bool] | None = None,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self.encoder, self.classes, self.n = encoder, list(classes), len(items)
        self.cancelled = cancelled
        named = [
            (number, words)
            for number, name in enumerate(self.classes)
            if phrases is not None and name in phrases
            for words in phrases_of(str(name), phrases[name])
        ]
        self.states = States(
            encoder,
            [*items, *(words for _, words in named)],
            most_bytes=cache_bytes,
            tick=self._ticker(progress, "Reading the items"),
        )
        self.phrases = [words for _, words in named]
        numbers = np.array([number for number, _ in named], np.int64)
        self.names = NameStates(np.arange(self.n, self.n + len(named)), numbers)
        self.frozen_weights = encoder.weights()

    def tune(
        self,
        labels: Mapping[int, int],
        *,
        folds: int = FOLDS,
        recipe: Recipe | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Finetuned:
        """Return the encoder tuned on labels (item -> class number), cross-validated.

        Afterwards the tuner's encoder has its frozen weights again, also after a cancellation.
        """
        begin, folds, recipe = time.perf_counter(), check_count(folds, "folds"), recipe or Recipe()
        rows = np.array(sorted(labels), np.int64)
        y = np.array([labels[int(i)] for i in rows], np.int64)
        self._check(rows, y, folds)
        # shares of the progress bar: 70 % for the folds, 30 % for the last tuning and embedding all items
        shares = np.cumsum([0.0, *[0.7 / folds] * folds, 0.3])
        fold_of = np.random.default_rng(seed).permutation(len(rows)) % folds
        k = len(self.classes)
        proba = {"frozen": np.empty((len(rows), k)), "tuned": np.empty((len(rows), k))}
        try:
            for fold in range(folds):
                part = _part(progress, shares[fold], shares[fold + 1])
                held_out = fold_of == fold
                frozen, tuned = self._predict_held_out(
                    rows, y, held_out, recipe, seed, part, f"Checking {fold + 1}/{folds}"
                )
                proba["frozen"][held_out], proba["tuned"][held_out] = frozen, tuned
            part = _part(progress, shares[-2], 1.0)
            head = self._train(rows, y, recipe, seed, _part(part, 0.0, 0.6), "Learning to read the items")
            tick = self._ticker(_part(part, 0.6, 1.0), "Reading the items again")
            after = self.states.embed(tick=tick)
            weights = self.encoder.weights()
        finally:
            self.encoder.set_weights(self.frozen_weights)
        losses = {which: calibrated_losses(p, y) for which, p in proba.items()}
        trusted = is_better(losses["tuned"], losses["frozen"])
        return Finetuned(
            encoder=TunedEncoder(self.encoder, self.frozen_weights, weights, trusted),
            classes=self.classes,
            labelled=rows,
            labels=y,
            trusted=trusted,
            log_loss={which: float(np.mean(each)) for which, each in losses.items()},
            accuracy={which: float(np.mean(p.argmax(axis=1) == y)) for which, p in proba.items()},
            frozen_proba=proba["frozen"],
            tuned_proba=proba["tuned"],
            before=self.states.features,
            after=after,
            phrase_classes=self.names.classes,
            names_hold=head.names_hold_,
            seconds=time.perf_counter() - begin,
        )

    def features(self, tuned: TunedEncoder) -> np.ndarray:
        """Return the features in use of all items, followed by those of the phrases of class names."""
        before = self.states.features
        if not tuned.trusted:
            return before
        try:
            self.encoder.set_weights(tuned.tuned)
            return np.concatenate([before, self.states.embed()], axis=1)
        finally:
            self.encoder.set_weights(self.frozen_weights)

    def by_class(self, rows: np.ndarray) -> dict[int, np.ndarray] | None:
        """Return the vectors of phrases by class number, out of rows of `features`; None without names."""
        return _by_class(rows[self.n :], self.names.classes, range(len(self.classes)))

    def _predict_held_out(
        self,
        rows: np.ndarray,
        y: np.ndarray,
        held_out: np.ndarray,
        recipe: Recipe,
        seed: int,
        progress: Progress | None,
        message: str,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return predictions of held-out items, on frozen features and on both; held_out: a mask of rows."""
        train, test, pool = rows[~held_out], rows[held_out], self._pool_rows()
        frozen_head = self._train(train, y[~held_out], recipe, seed, progress, message)
        before = self.states.features
        used = np.unique(np.r_[rows, pool, self.names.rows])
        both = np.concatenate([before[used], self.states.embed(used)], axis=1)
        of_train, of_test, of_pool, of_names = (
            both[np.searchsorted(used, idx)] for idx in (train, test, pool, self.names.rows)
        )
        head = self._head(of_train, y[~held_out], of_pool, of_names)
        return frozen_head.predict_proba(before[test]), head.predict_proba(of_test)

    def _pool_rows(self) -> np.ndarray:
        """Return an evenly spread sample of the items."""
        return np.linspace(0, self.n - 1, min(self.n, POOL_ROWS)).astype(np.int64)

    def _train(
        self,
        rows: np.ndarray,
        y: np.ndarray,
        recipe: Recipe,
        seed: int,
        progress: Progress | None,
        message: str,
    ) -> LaplaceClassifier:
        """Tune the encoder from its frozen weights and a head on frozen features; return that head."""
        self.encoder.set_weights(self.frozen_weights)
        features = self.states.features
        head = self._head(features[rows], y, features[self._pool_rows()], features[self.names.rows])
        start = linear_layer(head.posterior_, head._scaling)
        names = self.names if head.names_hold_ else None
        train_blocks(self.states, rows, y, start, names, recipe, seed, self._ticker(progress, message))
        return head

    def _head(
        self, features: np.ndarray, y: np.ndarray, pool: np.ndarray, phrases: np.ndarray
    ) -> LaplaceClassifier:
        """Return a head trained on features, with the phrases and the pool as its prior."""
        classes = np.arange(len(self.classes))
        names = _by_class(phrases, self.names.classes, classes)
        return LaplaceClassifier().fit(features, y, unlabelled=pool, names=names, classes=classes)

    def _check(self, rows: np.ndarray, y: np.ndarray, folds: int) -> None:
        if len(rows) < LEAST or len(np.unique(y)) < 2:
            raise EverylabelError(
                f"labels has {len(rows)} of {len(np.unique(y))} class(es); expected at least {LEAST}, of two"
            )
        if not 2 <= folds <= len(rows):
            raise EverylabelError(f"folds is {folds}; expected 2 to {len(rows)}, the number of labels")
        if rows[0] < 0 or rows[-1] >= self.n or y.min() < 0 or y.max() >= len(self.classes):
            raise EverylabelError(
                f"labels has items {rows[0]} to {rows[-1]} and classes {y.min()} to {y.max()}; expected "
                f"0 to {self.n - 1} and 0 to {len(self.classes) - 1}"
            )

    def _ticker(self, progress: Progress | None, message: str) -> Callable[[float], None]:
        def tick(share: float) -> None:
            if self.cancelled is not None and self.cancelled():
                raise Cancelled("fine-tuning was cancelled; the encoder is as it was")
            if progress is not None:
                progress(share, message)

        return tick


def _part(progress: Progress | None, begin: float, end: float) -> Progress | None:
    """Return a progress function for one part of the whole work."""
    if progress is None:
        return None
    return lambda share, message: progress(begin + share * (end - begin), message)


def _by_class(rows: np.ndarray, numbers: np.ndarray, classes: Any) -> dict[Any, np.ndarray] | None:
    """Return the vectors of phrases by class; None without any."""
    if not len(rows):
        return None
    return {classes[number]: rows[numbers == number] for number in np.unique(numbers)}


def calibrated_losses(proba: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the log loss of each label, after calibration by the temperature of least mean log loss."""
    log = np.log(np.maximum(proba, 1e-12))

    def at(temperature: float) -> np.ndarray:
        logits = log / temperature
        return np.asarray(logsumexp(logits, axis=1) - logits[np.arange(len(y)), y])

    return min(map(at, TEMPERATURES), key=np.mean)


def is_better(tuned: np.ndarray, frozen: np.ndarray) -> bool:
    """Return whether losses are lower by more than half a standard error of the paired difference.

    A whole standard error refused encoders that were better (docs/results/network.md): in a fold the network
    learns from two thirds of the labels only.
    """
    gain = frozen - tuned
    return bool(np.mean(gain) > 0.5 * np.std(gain, ddof=1) / np.sqrt(len(gain)))
