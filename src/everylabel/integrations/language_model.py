"""Labels of texts by a language model, appended to a file of suggestions as they come.

A line of the file is {"id", "label", "score", "source", "prompt"}; `prompt` is a digest of model,
instructions and classes, so that a stopped run resumes and answers to different prompts are never mixed.
An answer that names no class has the label null and its text in `answer`.
"""

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from everylabel.core.errors import EverylabelError, counted, listed
from everylabel.integrations.chat import Chat, ChatAnswer, Message, Unavailable, estimate

INSTRUCTIONS = "Classify the text of each message. Choose the class that fits it best."
LONGEST_TEXT = 8000  # characters of a text that are sent
NONSENSE = 20  # answers in a row without a class after which a run stops
KEPT = 300  # characters of an answer without a class in the file
FRAME = 12  # tokens of an answer besides the class, and of a message besides its text


class Prompt(NamedTuple):
    """Instructions, classes with their descriptions, and examples (text, class)."""

    instructions: str
    classes: Sequence[str]
    descriptions: Mapping[str, str]
    examples: Sequence[tuple[str, str]] = ()

    def messages(self, text: str) -> list[Message]:
        """Return the conversation that ends with a text to classify."""
        shown = [*self.examples, (text, "")]
        said = [{"role": "system", "content": self.system()}]
        for one, label in shown:
            said.append({"role": "user", "content": one[:LONGEST_TEXT]})
            if label:
                said.append(
                    {"role": "assistant", "content": json.dumps({"label": label}, ensure_ascii=False)}
                )
        return said

    def system(self) -> str:
        """Return the message that comes before all texts."""
        lines = [
            f"- {name}: {self.descriptions[name]}" if self.descriptions.get(name) else f"- {name}"
            for name in self.classes
        ]
        answer = json.dumps({"label": self.classes[0]}, ensure_ascii=False)
        classes = "Classes:\n" + "\n".join(lines)
        whole = self.instructions.strip()
        whole = whole.replace("{classes}", classes) if "{classes}" in whole else f"{whole}\n\n{classes}"
        return f"{whole}\n\nAnswer with JSON that names one class, such as {answer}, and nothing else."

    def digest(self, model: str) -> str:
        """Return a short digest of model, instructions and classes; examples may grow meanwhile."""
        whole = json.dumps([model, self.system()], ensure_ascii=False)
        return hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest()[:12]

    def tokens(self, texts: Sequence[str]) -> tuple[int, int]:
        """Estimate the numbers of tokens of questions and answers about texts."""
        fixed = sum(estimate(one["content"]) + FRAME for one in self.messages(""))
        answer = FRAME + max(estimate(name) for name in self.classes)
        return sum(fixed + estimate(text[:LONGEST_TEXT]) for text in texts), answer * len(texts)


@dataclass
class RunReport:
    """The result of a run."""

    asked: int = 0
    tokens: tuple[int, int] = (0, 0)
    scored: int = 0  # answers with a score
    without: int = 0  # answers without a class
    stopped: str = ""  # the limit that was reached

    def add(self, answer: ChatAnswer) -> None:
        self.asked += 1
        self.tokens = self.tokens[0] + answer.tokens[0], self.tokens[1] + answer.tokens[1]
        self.scored += answer.score is not None
        self.without += answer.label is None


class Answers:
    """A file of answers, which grows by whole lines; one run at a time writes to it."""

    def __init__(self, path: Path, source: str, digest: str) -> None:
        self.path, self.source, self.digest = path, source, digest
        self.done = set(self._read())

    def _read(self) -> Iterator[str]:
        """Yield ids of stored answers; remove a half-written last line of a killed run."""
        if not self.path.exists():
            return
        data = self.path.read_bytes()
        whole = data.rfind(b"\n") + 1
        for number, line in enumerate(data[:whole].decode("utf-8", "replace").splitlines(), 1):
            try:
                row = json.loads(line)
                item, prompt = str(row["id"]), row["prompt"]
            except (ValueError, KeyError, TypeError) as error:
                raise EverylabelError(
                    f"--out {str(self.path)!r} has a line {number} that this command did not write; expected "
                    "a new file, or the file of an interrupted run"
                ) from error
            if prompt != self.digest:
                raise EverylabelError(
                    f"--out {str(self.path)!r} holds answers to another prompt, other classes or of another "
                    "model; expected a new file, or the arguments of that run"
                )
            yield item
        if whole < len(data):
            with self.path.open("r+b") as file:
                file.truncate(whole)

    def append(self, item: str, answer: ChatAnswer) -> None:
        """Write an answer; it is on disk when this returns."""
        row: dict[str, Any] = {"id": item, "label": answer.label, "score": answer.score}
        row |= {"source": self.source, "prompt": self.digest}
        if answer.label is None:
            row["answer"] = answer.text[:KEPT]
        with self.path.open("a", encoding="utf-8", errors="replace") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.done.add(item)


def choose_examples(labels: Mapping[int, str], most: int) -> list[int]:
    """Return labelled items as examples, the classes in turn."""
    by_class: dict[str, list[int]] = {}
    for item in sorted(labels):
        by_class.setdefault(labels[item], []).append(item)
    rounds = max((len(some) for some in by_class.values()), default=0)
    in_turn = [some[i] for i in range(rounds) for some in by_class.values() if i < len(some)]
    return in_turn[:most]


def run(
    chat: Chat,
    prompt: Prompt,
    texts: Mapping[str, str],
    answers: Answers,
    *,
    max_requests: int | None = None,
    max_tokens: int | None = None,
    parallel: int = 4,
    progress: Callable[[int, int], Any] = lambda done, total: None,
) -> RunReport:
    """Ask about all texts (id -> text) that have no answer yet, some at a time; every answer is kept.

    max_requests, max_tokens : the run ends here, even if texts are left
    """
    left = [item for item in texts if item not in answers.done]
    report, in_a_row, begun = RunReport(), 0, 0
    todo, done = SimpleQueue[str](), SimpleQueue[tuple[str, ChatAnswer | Exception]]()

    def work() -> None:
        while True:
            item = todo.get()
            try:
                done.put((item, chat.ask(prompt.messages(texts[item]))))
            except Exception as error:
                done.put((item, error))

    def reached() -> str:
        """Return the limit that is reached, as its option; "" if none is."""
        if max_requests is not None and begun >= max_requests:
            return f"--max-requests {max_requests}"
        if max_tokens is not None and sum(report.tokens) >= max_tokens:
            return f"--max-tokens {max_tokens}"
        return ""

    for _ in range(min(parallel, len(left))):  # daemons: an interrupt does not wait for the server
        threading.Thread(target=work, daemon=True).start()
    try:
        while True:
            room = parallel if report.asked else 1  # the first one finds out which requests the server takes
            report.stopped = reached()
            while not report.stopped and begun < len(left) and begun - report.asked < room:
                todo.put(left[begun])
                begun += 1
                report.stopped = reached()
            if begun == report.asked:
                break
            item, reply = done.get()
            answer = _checked(reply, first=report.asked == 0)
            answers.append(item, answer)
            report.add(answer)
            in_a_row = in_a_row + 1 if answer.label is None else 0
            if in_a_row >= NONSENSE:
                raise Unavailable(
                    f"{NONSENSE} answers in a row name no class, the last is {answer.text[:120]!r}; expected "
                    f"one of {listed(list(prompt.classes))}: another model, or another --prompt"
                )
            progress(len(answers.done), len(texts))
    except Unavailable as error:
        kept = f"{counted(len(answers.done), 'answer is', 'answers are')} in {str(answers.path)!r}"
        raise EverylabelError(f"{error}. {kept}; the same command continues from there") from error
    finally:
        chat.stop()
    if begun == len(left):
        report.stopped = ""
    return report


def _checked(reply: ChatAnswer | Exception, first: bool) -> ChatAnswer:
    """Return an answer; a refused text has none (but a refusal of the very first text raises)."""
    if isinstance(reply, ChatAnswer):
        return reply
    if isinstance(reply, Unavailable) or not isinstance(reply, EverylabelError):
        raise reply
    if first:
        raise Unavailable(f"{reply}; expected an answer: check --endpoint and --model") from reply
    return ChatAnswer(None, None, (0, 0), f"refused: {reply}")
