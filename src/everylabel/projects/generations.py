"""Generations: features by a fine-tuned encoder, as files in the project's folder.

An event in the log names the current generation. If its files are missing, the frozen features are used.
"""

import hashlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from everylabel.data.digests import image_digests, text_digests
from everylabel.data.items import IdList
from everylabel.labelling.model.training import ClassNames, Encoder, FeatureTable
from everylabel.labelling.state.state import State
from everylabel.log import events
from everylabel.models.finetuning.job import ENCODER, FEATURES, NAMES, PROBABILITIES, RESULT
from everylabel.projects.project import Project

FOLDER, IDS = "generations", "ids.json"  # in the project's folder; ids and digests of a generation's items


@dataclass(frozen=True)
class Generation:
    """Features of all items by a fine-tuned encoder, and cross-fitted predictions of its training labels."""

    folder: Path
    body: events.Generation
    ids: IdList
    features: np.ndarray  # (n, d), frozen and tuned features concatenated
    cross_fitted: Mapping[str, Mapping[str, float]]  # item -> class name -> probability without its label
    phrases: Mapping[str, np.ndarray]  # phrase of a class name -> vector
    names_hold: bool  # whether the labels confirm the class names
    digests: Sequence[str]  # content digest of each row's item
    lock: Any = field(default_factory=threading.Lock, repr=False, compare=False)  # held while embedding

    @property
    def encoder(self) -> Encoder:
        """The fine-tuned encoder, for class names."""
        return Encoder(f"generation {self.body.number} {self.body.weights}", self.embed)

    @property
    def encoder_folder(self) -> Path:
        """The folder of the encoder, as `TunedEncoder.save` wrote it."""
        return self.folder / ENCODER

    @cached_property
    def _tuned(self) -> Any:
        from everylabel.models.finetuning import TunedEncoder

        return TunedEncoder.load(self.encoder_folder)

    def load(self) -> None:
        """Load the encoder, if it is not loaded yet."""
        assert self._tuned is not None

    def embed(self, items: Sequence[Any]) -> np.ndarray:
        """Return features of other items by this generation; the first call loads the encoder."""
        with self.lock:  # the encoder switches between frozen and tuned weights
            return np.asarray(self._tuned.embed(list(items)), np.float32)

    def on(
        self, kind: str, ids: Sequence[str], content: Callable[[Sequence[str]], Sequence[Any]]
    ) -> "tuple[Generation, FeatureTable]":
        """Return the generation without predictions of changed items, and the features of all ids.

        Items that joined since and items whose content has changed are embedded.

        kind : of the items
        content : function from ids to their items
        """
        position = self.ids.position
        known = [name for name in ids if name in position]
        digests = zip(known, item_digests(kind, known, content(known)), strict=True)
        changed = {name for name, digest in digests if digest != self.digests[position[name]]}
        rows = [None if name in changed else position.get(name) for name in ids]
        if rows == list(range(len(self.ids))):
            return self, FeatureTable(ids, self.features)
        cross_fitted = {name: p for name, p in self.cross_fitted.items() if name not in changed}
        made, features = (
            replace(self, cross_fitted=cross_fitted),
            np.empty((len(ids), self.features.shape[1]), np.float32),
        )
        is_new = np.array([row is None for row in rows], bool)
        features[~is_new] = np.asarray(self.features)[[row for row in rows if row is not None]]
        if is_new.any():
            features[is_new] = made.embed(
                content([name for name, row in zip(ids, rows, strict=True) if row is None])
            )
        return made, FeatureTable(ids, features)

    def class_names(self) -> ClassNames:
        """Return vectors of class names by this encoder; empty if the labels do not confirm the names."""
        names = ClassNames(self.encoder if self.names_hold else None, self.folder / "class-names.npz")
        names.add(self.phrases)
        return names

    def cross_fitted_by(self, state: State) -> dict[int, dict[int, float]]:
        """Return the cross-fitted probabilities by item position and class number."""
        found: dict[int, dict[int, float]] = {}
        for item, probs in self.cross_fitted.items():
            if item not in state.position:
                continue
            row = found.setdefault(state.position[item], {})
            for name, p in probs.items():
                number = state.book.current(state.names[name]) if name in state.names else None
                if number is not None:  # a merged class has the sum of the probabilities
                    row[number] = row.get(number, 0.0) + p
        return found


def load_generation(folder: Path, body: events.Generation | None) -> Generation | None:
    """Return a generation from a project's folder; None if its files are missing or changed."""
    if body is None:
        return None
    place = folder / FOLDER / str(body.number)
    try:
        if file_digest(place / FEATURES) != body.features or weights_digest(place) != body.weights:
            return None
        result = json.loads((place / RESULT).read_text())
        items = json.loads((place / IDS).read_text())
        ids, digests = items["ids"], items["digests"]
        probabilities = np.load(place / PROBABILITIES)
        classes = result["classes"]
        cross_fitted = {
            ids[row]: dict(zip(classes, probs.tolist(), strict=True))
            for row, probs in zip(result["rows"], probabilities, strict=True)
        }
        phrases = dict(zip(result["phrases"], np.load(place / NAMES), strict=True))
        features = np.load(place / FEATURES, mmap_mode="r")
    except (OSError, ValueError, KeyError, TypeError):
        return None
    names_hold = bool(result["names_hold"])
    return Generation(place, body, IdList(ids), features, cross_fitted, phrases, names_hold, digests)


def item_digests(kind: str, ids: Sequence[str], items: Sequence[Any]) -> Sequence[str]:
    """Return a hash of each item's content: of the text, or of the name and size of the image."""
    return text_digests(items) if kind == "text" else image_digests(items, ids)


def with_generation(project: Project, body: events.Generation | None) -> Project:
    """Return a project with the features of its current generation, if it has one."""
    generation = load_generation(project.folder, body)
    if generation is None:
        return project
    generation, rows = generation.on(project.kind, project.ids_here, content_of(project))
    return replace(project, features=rows.features, generation=generation)


def content_of(project: Project) -> Callable[[Sequence[str]], Sequence[Any]]:
    """Return a function from ids to the items of a project."""
    position = {name: i for i, name in enumerate(project.ids)}
    return lambda ids: project.some([position[name] for name in ids])


def file_digest(path: Path) -> str:
    """Return a hash of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def weights_digest(place: Path) -> str:
    """Return a hash of all weights of a generation."""
    files = sorted((place / ENCODER).rglob("*.safetensors"))
    return hashlib.blake2b("".join(map(file_digest, files)).encode(), digest_size=16).hexdigest()
