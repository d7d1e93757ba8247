"""A log of very many events, as after years of labelling, written by the store's own code."""

import time
from collections.abc import Iterator
from itertools import count
from uuid import UUID

import numpy as np

from everylabel.log import events
from everylabel.log.events import Body, Event
from everylabel.log.store import Store

AT_ONCE = 20_000  # events in a commit
Said = tuple[str, Body, str | None]  # person, body, key


def write_events(store: Store, upto: int, labels: np.ndarray, people: int, wrong: float) -> None:
    """Continue a log, in which nobody has said anything yet, up to some number of events.

    All items are handed out and answered, and then answered again and again, some otherwise than they should
    be.
    """
    seq, fresh = store.read()[-1].seq, list[Event]()
    for person, body, key in _said(labels, people, wrong):
        seq += 1
        fresh.append(Event(seq, time.time(), person, body, key))
        if len(fresh) == AT_ONCE:
            store.append(fresh)
            fresh = []
        if seq >= upto:
            break
    store.append(fresh)


def _said(labels: np.ndarray, people: int, wrong: float) -> Iterator[Said]:
    """Yield events for ever."""
    rng, n, k = np.random.default_rng(0), len(labels), int(labels.max()) + 1
    order = rng.permutation(n).tolist()
    for i in count():
        item, person, check = str(order[i % n]), f"person {i % people}", i < n and i % 10 == 9
        if i < n:
            yield person, events.Leased(item, "check" if check else "chosen", expected=0.8, by="margin"), None
        right = rng.random() >= wrong
        class_ = int(labels[int(item)]) if right else int(rng.integers(k))
        guess, sure = int(rng.integers(k)), round(float(rng.random()), 6)
        yield (
            person,
            events.Label(item, class_, guess=guess, sure=sure, check=check),
            str(UUID(bytes=rng.bytes(16), version=4)),
        )
