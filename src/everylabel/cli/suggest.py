"""`everylabel suggest`."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from everylabel.cli import options
from everylabel.cli.console import embedding_bar, note, opened

if TYPE_CHECKING:
    from everylabel.data.items import Items
    from everylabel.labelling.state.state import State

MILLION = 1e6


def suggest(
    source: Annotated[str, typer.Argument(help="Texts: a table, or the folder of a project of texts.")],
    endpoint: Annotated[
        str, typer.Option(help="A server with OpenAI's chat protocol: http://localhost:8000/v1.")
    ],
    model: Annotated[str, typer.Option(help="The model's name at this server.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The .jsonl file to append the answers to.")],
    prompt: Annotated[
        Path | None,
        typer.Option(help="A text file with instructions; {classes} stands for the list of classes."),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(help="Comma-separated names, or a CSV file: name, description. Default: the project's."),
    ] = None,
    examples: Annotated[
        int,
        typer.Option(min=0, max=200, help="Number of labelled items of the project to put into the prompt."),
    ] = 0,
    name: Annotated[
        str | None, typer.Option(help="Name of the language model on the page; default: --model.")
    ] = None,
    api_key: Annotated[
        str | None, typer.Option(envvar="EVERYLABEL_API_KEY", help="The API key of the server.")
    ] = None,
    parallel: Annotated[int, typer.Option(min=1, max=64, help="Requests at a time.")] = 4,
    retries: Annotated[int, typer.Option(min=0, max=20, help="Further tries when a request fails.")] = 5,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait for an answer.")] = 120,
    max_requests: Annotated[int | None, typer.Option(min=1, help="Stop after N requests.")] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Stop after N tokens, prompts and answers together.")
    ] = None,
    input_price: Annotated[
        float | None, typer.Option(min=0, help="Price of a million prompt tokens, for the estimate.")
    ] = None,
    output_price: Annotated[
        float | None, typer.Option(min=0, help="Price of a million answer tokens, for the estimate.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Start without asking.")] = False,
    text_column: options.TextColumn = None,
    id_column: options.IdColumn = None,
    store: options.Store = None,
    folder: options.Folder = None,
    encoding: options.Encoding = None,
    long_rows: options.LongRows = None,
) -> None:
    """Ask a language model for the class of each text. `label --suggestions` reads its answers.

    Repeat the same command to continue a stopped run.
    """
    from everylabel.core.errors import EverylabelError, counted
    from everylabel.data.classes import class_list
    from everylabel.integrations.chat import Chat
    from everylabel.integrations.language_model import (
        INSTRUCTIONS,
        Answers,
        Prompt,
        run,
    )

    if out.suffix.lower() != ".jsonl":
        raise EverylabelError(f"--out is {str(out)!r}; expected a file that ends in .jsonl")
    given = class_list(classes, encoding)
    reading = {
        "text_column": text_column,
        "id_column": id_column,
        "encoding": encoding,
        "long_rows": long_rows,
    }
    items, state = _read(source, folder, store, reading)
    names, descriptions = given.names, given.descriptions
    if names is None and state is not None:
        book = state.book
        names = [book.names[number] for number in book.order]
        descriptions = {book.names[number]: text for number, text in book.descriptions.items()}
    if not names or len(names) < 2:
        raise EverylabelError(
            f"--classes names {len(names or [])} classes and source {source!r} has no project with classes; "
            "expected two or more: comma-separated names, or a CSV file with the columns name, description"
        )
    shown = _examples(items, state, names, examples)
    # The prompt contains the examples' classes, so the model is not asked about the examples.
    texts = {items.known_as(i): str(text) for i, text in enumerate(items.items) if i not in shown}
    instructions = INSTRUCTIONS if prompt is None else _instructions(prompt, encoding)
    chosen = [(str(items.items[i]), label) for i, label in shown.items()]
    asking = Prompt(instructions, names, descriptions, chosen)
    chat = Chat(endpoint, model, names, key=api_key, retries=retries, timeout=timeout)
    answers = Answers(out, name or model, asking.digest(model))
    left = [text for item, text in texts.items() if item not in answers.done]
    if len(left) < len(texts):
        note(f"{counted(len(texts) - len(left), 'answer is', 'answers are')} in {out} already")
    if not left:
        print(f"nothing to ask: all {len(texts):,} answers are in {out}")
        return
    many = left if max_requests is None else left[:max_requests]
    question = _estimate(model, len(many), asking.tokens(many), input_price, output_price)
    if not yes:
        _confirm(question)
    else:
        note(question)
    with embedding_bar("asking") as progress:
        report = run(
            chat,
            asking,
            texts,
            answers,
            max_requests=max_requests,
            max_tokens=max_tokens,
            parallel=parallel,
            progress=progress,
        )
    if report.without:
        unnamed = counted(report.without, "answer names", "answers name")
        note(f"{unnamed} no class; the lines in {out} quote them")
    if not report.scored:
        note("the server gives no log-probabilities, so the suggestions have no scores")
    used = _price(report.tokens, input_price, output_price)
    stopped = f"; stopped at {report.stopped}: the same command continues" if report.stopped else ""
    label = ["everylabel", "label", source, "--suggestions", str(out)]
    for option, value in {**reading, "project": folder}.items():
        label += [] if value is None else [f"--{option.replace('_', '-')}", str(value)]
    print(
        f"{counted(report.asked, 'new answer')} in {out}, {sum(report.tokens):,} tokens{used}{stopped}; "
        f"next: {shlex.join(label)}"
    )


def _read(
    source: str, folder: Path | None, store: str | None, reading: dict[str, str | None]
) -> "tuple[Items, State | None]":
    """Return the items of a source, and the state of its project if there is one; nothing is embedded."""
    from everylabel.core.errors import EverylabelError
    from everylabel.log.store import NoLog
    from everylabel.projects.folder import LogUse
    from everylabel.projects.log import project_log, read_events

    project = opened(source, folder=folder, log=LogUse(store), keep=False, embed=False, **reading)
    if project.kind != "text":
        raise EverylabelError(f"source {source!r} holds items of kind {project.kind!r}; expected texts")
    try:
        with project_log(project, store) as log:
            return project, read_events(log, project.ids)
    except NoLog:
        return project, None


def _examples(items: "Items", state: "State | None", names: list[str], wanted: int) -> dict[int, str]:
    """Return people's labels as examples, by the item's position in the source."""
    from everylabel.core.errors import EverylabelError
    from everylabel.integrations.language_model import choose_examples

    if not wanted:
        return {}
    labels: dict[int, str] = {}
    if state is not None:
        place = {name: i for i, name in enumerate(items.ids)}
        known = ((item, c) for item, c in state.labels.items() if isinstance(c, int) and c >= 0)
        own = {state.ids[item]: state.classes[c] for item, c in known}
        labels = {place[name]: label for name, label in own.items() if label in names and name in place}
    if not labels:
        raise EverylabelError(
            f"--examples is {wanted} and the source's project has no labels of these classes; expected some: "
            "label a few items first, or leave --examples out"
        )
    return {item: labels[item] for item in choose_examples(labels, wanted)}


def _instructions(path: Path, encoding: str | None) -> str:
    from everylabel.core.errors import EverylabelError

    try:
        text = path.read_text(encoding=encoding or "utf-8")
    except (OSError, ValueError) as error:
        raise EverylabelError(
            f"--prompt {str(path)!r} cannot be read ({error}); expected a text file"
        ) from error
    if not text.strip():
        raise EverylabelError(f"--prompt {str(path)!r} is empty; expected instructions")
    return text


def _estimate(model: str, n: int, tokens: tuple[int, int], *prices: float | None) -> str:
    cost = _price(tokens, *prices)
    asked = f"{n:,} requests to {model}: about {tokens[0]:,} tokens of questions"
    return f"{asked} and {tokens[1]:,} of answers{cost}"


def _price(tokens: tuple[int, int], *prices: float | None) -> str:
    if all(price is None for price in prices):
        return ""
    cost = sum(n * (price or 0.0) / MILLION for n, price in zip(tokens, prices, strict=True))
    return f", {cost:,.2f} at the given prices" if cost >= 0.01 else f", {cost:.4f} at the given prices"


def _confirm(question: str) -> None:
    from everylabel.core.errors import EverylabelError

    if not sys.stdin.isatty():
        raise EverylabelError(f"{question}. Nobody can confirm this here; expected --yes")
    typer.confirm(f"{question}. Start?", abort=True, err=True)
