"""500 messages of customers with their intents: of Banking-77 where the data are, made up elsewhere."""

import csv
import itertools
import os
import random
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from tests.fixtures import ROOT
from tests.web.browser.screenshots import TOPICS

MANY = 500


class Messages(NamedTuple):
    """Texts, their intents and where they come from."""

    truth: dict[str, str]
    source: str

    @property
    def texts(self) -> list[str]:
        return list(self.truth)

    @property
    def config(self) -> str:
        """Return a labelling configuration that asks for the intent."""
        choices = "".join(f"<Choice value={quoteattr(name)}/>" for name in sorted(set(self.truth.values())))
        asked = f'<Choices name="label" toName="text" choice="single" layout="inline">{choices}</Choices>'
        return f'<View><Text name="text" value="$text"/>{asked}</View>'


def banking() -> Messages:
    """Return messages drawn from Banking-77, or from made-up ones."""
    data = Path(os.environ.get("EVERYLABEL_DATA") or ROOT.parent / "shared" / "data")
    path = data / "official" / "banking77" / "train.csv"
    if not path.is_file():
        return made_up(MANY)
    with path.open(newline="", encoding="utf-8") as file:
        rows = [(" ".join(row["text"].split()), row["category"]) for row in csv.DictReader(file)]
    return Messages(dict(random.Random(0).sample(sorted(dict(rows).items()), MANY)), "Banking-77")


def made_up(n: int) -> Messages:
    """Return n messages to a shop."""
    parts = [(topic, part) for topic, lists in TOPICS.items() for part in itertools.product(*lists)]
    random.Random(0).shuffle(parts)
    turns = itertools.cycle(parts)
    truth: dict[str, str] = {}
    for number in range(n):
        topic, (begin, about, end) = next(turns)
        again = f" This is my message number {number // len(parts) + 1}." if number >= len(parts) else ""
        truth[f"{begin} {about}. {end}{again}"] = topic
    return Messages(truth, "made up")
