"""`everylabel export`."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from everylabel.cli import options
from everylabel.cli.console import done, note, opened
from everylabel.formats.known import ENCODER, MLFLOW, MODELS, PROGRAMS, TABLES, Format

if TYPE_CHECKING:
    from everylabel.labelling.model.training import Prepared


def export(
    source: Annotated[str, typer.Argument(help="The source that was labelled, or its project's folder.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")],
    what: Annotated[
        str,
        typer.Option(
            help="labels, answers, predictions, all (labels and predictions), test, model, or a queue: "
            "suspect, more ..."
        ),
    ] = "labels",
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help=f"{', '.join([*TABLES, *PROGRAMS])}; {', '.join(MODELS)}; folders: {MLFLOW}, {ENCODER}.",
        ),
    ] = None,
    columns: options.Columns = None,
    show: options.Show = None,
    class_: Annotated[str | None, typer.Option("--class", help="For a queue: the name of the class.")] = None,
    item: Annotated[str | None, typer.Option(help="For the queue `like`: the id of the item.")] = None,
    store: options.Store = None,
    folder: options.Folder = None,
) -> None:
    """Write labels, predictions or the model to a file. Works while people label."""
    from everylabel.core.checks import check_choice
    from everylabel.core.errors import counted, listed
    from everylabel.core.files import write_atomically
    from everylabel.data.classes import column_list
    from everylabel.formats.exports import (
        FORMATS,
        WHAT,
        exported,
        model_export,
        save_network,
        table_export,
        to_predict,
    )
    from everylabel.formats.records import QueueTarget
    from everylabel.labelling.model.training import prepare
    from everylabel.labelling.queues import QUEUES
    from everylabel.labelling.state.types import partly_answered
    from everylabel.projects.folder import LogUse
    from everylabel.projects.generations import with_generation
    from everylabel.projects.log import class_names_of
    from everylabel.projects.predictions import read_labels

    check_choice(what, "--what", [*WHAT, "model"])
    beside = column_list(columns)
    needs_model = what not in ("labels", "answers")
    how = {"keep": False, "reading": True, "embed": needs_model}
    project = opened(source, folder=folder, show=show, log=LogUse(store, needed=True), **how)
    if Path(project.source).is_absolute() and not Path(project.source).exists():
        note(f"source {project.source!r} no longer exists: the export has ids, but no other columns")
    label_set = read_labels(project, store, names=class_names_of(project) if needs_model else None)
    if needs_model:
        project = with_generation(project, label_set.generation)
    if form is None and what == "model" and not out.suffix and project.generation is not None:
        form = ENCODER
    chosen = form or format_of(out, MODELS if what == "model" else FORMATS if what == "answers" else TABLES)

    def prepared() -> "Prepared":
        return prepare(project.features)

    if what == "model" and chosen == MLFLOW:
        from everylabel.integrations.mlflow import save_project

        save_project(project, label_set, out)
    elif what == "model" and chosen == ENCODER:
        save_network(project, label_set, out)
    else:
        if what == "model":
            written = model_export(prepared, label_set, chosen, project.generation)
            if project.generation is not None and chosen != "onnx":
                note(
                    "the file holds the head alone, on the features of the fine-tuned network; --format "
                    f"{ENCODER}, onnx or {MLFLOW} holds the network, too"
                )
        else:
            written = table_export(
                project, prepared, label_set, what, chosen, beside, QueueTarget(class_, item)
            )
        write_atomically(out, lambda file: file.writelines(written.pieces), follow_links=True)
    if label_set.withdrawn:
        names = listed([project.known_as(i) for i in label_set.withdrawn])
        many = counted(len(label_set.withdrawn), "label is", "labels are")
        note(f"{many} left out: the content of their items has changed since ({names})")
    if label_set.none and what in ("labels", "predictions", "all"):
        many = counted(len(label_set.none), "item is", "items are")
        note(f'{many} left out, answered "none of these"; --what answers lists them')
    some = partly_answered(label_set.labels.values(), len(label_set.classes))
    if some and what in ("labels", "answers", "all"):
        many = counted(some, "item is", "items are")
        note(f"{many} written as JSON, because some classes are unanswered: see the queue Unanswered")
    labelled, n = len(label_set.labels), len(project)
    left = len(to_predict(n, label_set)) if what in ("predictions", "all") else 0
    exported_what = {
        "answers": f"answers on {counted(len(label_set.answers), 'item')}",
        "predictions": f"predictions of {counted(left, 'item')} without a label",
        "all": f"labels and predictions of {counted(labelled + len(label_set.test) + left, 'item')}",
        "test": f"labels and predictions of {counted(len(label_set.test), 'test item')}",
        "model": f"model of {counted(labelled, 'labelled item')}",
        **{name: f"queue {about.title!r}" for name, about in QUEUES.items()},
    }.get(what, f"labels of {counted(len(exported(label_set)), 'item')}")
    done(f"{exported_what}, of {n:,} in all, in {out}")


def format_of(out: Path, formats: Mapping[str, Format]) -> str:
    """Return the format that a file name's ending implies."""
    from everylabel.core.errors import EverylabelError

    found = [name for name, form in formats.items() if form.ending == out.suffix.lower()]
    if not found:
        expected = ", ".join(f"{form.ending} ({name})" for name, form in formats.items())
        raise EverylabelError(f"--out is {str(out)!r}; expected an ending of {expected}, or --format")
    return found[0]
