"""What is shown of an item: the columns that are asked for, and nothing that tells its class."""

from pathlib import Path

import pytest
from PIL import Image

from everylabel.core.errors import EverylabelError
from everylabel.projects.project import open_project
from everylabel.web.shown import Shown


def table(folder: Path) -> Path:
    path = folder / "mail.csv"
    rows = [f"text {i},app,2024,{'ab'[i % 2]},{'ab'[i % 2]}" for i in range(6)]
    path.write_text("\n".join(["body,channel,date,category,said", *rows]) + "\n")
    return path


def shown_fields(shown: Shown) -> list[str]:
    return [name for name, _ in shown.item(shown.project.ids[0])["fields"]]


def test_columns_of_labels_are_shown_only_if_asked_for(tmp_path: Path) -> None:
    project = open_project(table(tmp_path), text_column="body", classes=["a", "b"], model="tfidf")
    assert shown_fields(Shown(project)) == ["channel", "date"]  # by name, and by what they hold
    assert shown_fields(Shown(project, ["date", "category"])) == ["date", "category"]
    assert shown_fields(Shown(project, [])) == []
    with pytest.raises(EverylabelError, match=r"--fields names price; expected some of .*channel"):
        Shown(project, ["price"])


def test_folders_that_are_classes_are_not_shown(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for i in range(2):
            Image.new("RGB", (8, 8), (100 * i, 50, 50)).save(tmp_path / "pets" / name / f"{i}.png")
    pets, other = tmp_path / "pets", tmp_path / "other"
    shown = Shown(open_project(pets, classes=["cat", "dog"], model="pixels"))
    ids = shown.project.ids
    for names in (
        [shown.name(i) for i in ids],
        [shown.item(i)["name"] for i in ids],
        [shown.text(i) for i in ids],
    ):
        assert set(names) == {"0.png", "1.png"}
    shown = Shown(open_project(pets, classes=["old", "young"], folder=other, model="pixels"))
    assert any(shown.name(i).startswith("cat/") for i in shown.project.ids)
