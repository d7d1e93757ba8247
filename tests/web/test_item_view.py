"""The view of an item shows the requested columns, and nothing that reveals its class."""

from pathlib import Path

import pytest
from PIL import Image

from everylabel.core.errors import EverylabelError
from everylabel.data.digests import UNREADABLE
from everylabel.data.items import Sent, sent_items
from everylabel.labelling.state.types import Refused
from everylabel.projects.folder import lies_in
from everylabel.projects.project import open_project
from everylabel.web import item_view
from everylabel.web.item_view import ItemView, allowed_images


def table(folder: Path) -> Path:
    path = folder / "mail.csv"
    rows = [f"text {i},app,2024,{'ab'[i % 2]},{'ab'[i % 2]}" for i in range(6)]
    path.write_text("\n".join(["body,channel,date,category,said", *rows]) + "\n")
    return path


def shown_fields(shown: ItemView) -> list[str]:
    return [name for name, _ in shown.item(shown.project.ids[0])["fields"]]


def test_columns_of_labels_are_shown_only_if_asked_for(tmp_path: Path) -> None:
    project = open_project(table(tmp_path), text_column="body", classes=["a", "b"], model="tfidf")
    assert shown_fields(ItemView(project)) == ["channel", "date"]  # by name, and by what they hold
    assert shown_fields(ItemView(project, ["date", "category"])) == ["date", "category"]
    assert shown_fields(ItemView(project, [])) == []
    with pytest.raises(EverylabelError, match=r"--fields names price; expected some of .*channel"):
        ItemView(project, ["price"])


def test_a_column_of_something_else_is_not_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every sent item makes this check, so its cost must not grow with the source."""
    project = open_project(table(tmp_path), text_column="body", classes=["a", "b"], model="tfidf")
    seen: list[str] = []

    def label_of(value: object) -> str:
        seen.append(str(value))
        return str(value)

    monkeypatch.setattr(item_view, "label_of", label_of)
    ItemView(project)
    assert sorted(seen) == sorted(
        ["text 0", "app", "2024", *(str(value) for value in project.columns["said"])]
    )


def test_columns_that_come_with_sent_texts_are_shown_unless_they_reveal_the_class(tmp_path: Path) -> None:
    project = open_project(table(tmp_path), text_column="body", classes=["a", "b"], model="tfidf")
    shown, told = ItemView(project.without_features()), list[list[str]]()
    for i, fields in enumerate([{"said": "a"}, {"new": "a"}, {"said": "no class"}, {"new": "x"}]):
        now = shown.project
        sent = sent_items([Sent(f"id {i}", f"a text {i}", fields)], now, "body")
        shown.replace_project(now.with_items(now.followed_by(sent)))
        assert shown.item(f"id {i}")["text"] == f"a text {i}"
        assert shown.place(f"id {i}") == len(project.ids) + i
        told.append([name for name in fields if [name, fields[name]] in shown.item(f"id {i}")["fields"]])
    assert told == [[], [], ["said"], ["new"]]


def test_folders_that_are_classes_are_not_shown(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for i in range(2):
            Image.new("RGB", (8, 8), (100 * i, 50, 50)).save(tmp_path / "pets" / name / f"{i}.png")
    pets, other = tmp_path / "pets", tmp_path / "other"
    shown = ItemView(open_project(pets, classes=["cat", "dog"], model="pixels"))
    ids = shown.project.ids
    for names in (
        [shown.name(i) for i in ids],
        [shown.item(i)["name"] for i in ids],
        [shown.text(i) for i in ids],
    ):
        assert set(names) == {"0.png", "1.png"}
    shown = ItemView(open_project(pets, classes=["old", "young"], folder=other, model="pixels"))
    assert any(shown.name(i).startswith("cat/") for i in shown.project.ids)


def test_images_outside_the_source_s_folder_are_shown_only_if_the_user_says_so(tmp_path: Path) -> None:
    inside, private = tmp_path / "shop", tmp_path / "private"
    for folder in (inside, private):
        folder.mkdir()
        for i in range(3):
            Image.new("RGB", (8, 8), (50 * i, 50, 50)).save(folder / f"{i}.png")
    source = inside / "list.csv"
    for named in ("../private/1.png", str(private / "1.png"), "link.png"):
        (inside / "link.png").unlink(missing_ok=True)
        (inside / "link.png").symlink_to(private / "1.png")
        source.write_text(f"photo\n0.png\n1.png\n{named}\n")
        project = open_project(source, image_column="photo", model="pixels", folder=tmp_path / named[-6:])
        with pytest.raises(EverylabelError, match=rf"1 images lie outside .*--images-in {private}"):
            allowed_images(project)
        shown = ItemView(project, allowed=allowed_images(project, [private]))
        assert all(shown.picture(name)[1] == "image/png" for name in project.ids)
    source.write_text("photo\n0.png\n1.png\n")
    project = open_project(source, image_column="photo", model="pixels", folder=tmp_path / "own")
    shown = ItemView(project, allowed=allowed_images(project))
    shown.picture(project.ids[0])
    (inside / "0.png").unlink()
    (inside / "0.png").symlink_to(private / "0.png")  # while it is served
    with pytest.raises(Refused, match="outside"):
        shown.picture(project.ids[0])
    assert shown.digest(project.ids[0]) == UNREADABLE  # nothing of it is read
    (inside / "0.png").unlink()
    (inside / "0.png").symlink_to("0.png")  # to itself
    assert shown.digest(project.ids[0]) == UNREADABLE


def test_a_folder_that_becomes_a_link_shows_nothing_of_others(tmp_path: Path) -> None:
    for folder in ("shop/sub", "private"):
        (tmp_path / folder).mkdir(parents=True)
        Image.new("RGB", (8, 8), (50, 50, 50)).save(tmp_path / folder / "0.png")
    source = tmp_path / "shop" / "list.csv"
    source.write_text("photo\nsub/0.png\n")
    project = open_project(source, image_column="photo", model="pixels")
    shown = ItemView(project, allowed=allowed_images(project))
    assert shown.picture(project.ids[0])[1] == "image/png"
    (tmp_path / "shop" / "sub").rename(tmp_path / "shop" / "sub_")
    (tmp_path / "shop" / "sub").symlink_to(tmp_path / "private")  # while it is served
    with pytest.raises(Refused, match="outside"):
        shown.picture(project.ids[0])


def test_a_table_of_images_and_of_paths_shows_no_others(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    (tmp_path / "in").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "private.png")
    private = tmp_path / "private.png"
    cells = [{"bytes": private.read_bytes(), "path": None}, {"bytes": None, "path": str(private)}]
    source = tmp_path / "in" / "list.parquet"
    pandas.DataFrame({"photo": cells}).to_parquet(source)
    project = open_project(source, image_column="photo", model="pixels")
    with pytest.raises(EverylabelError, match="1 images lie outside"):
        allowed_images(project)
    shown = ItemView(project, allowed=allowed_images(project, [tmp_path]))
    assert all(shown.picture(name)[1] == "image/png" for name in project.ids)


def test_allowed_folder_replaced_by_a_link_does_not_allow_its_target(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "x.png").write_bytes(b"")
    (tmp_path / "pics").mkdir()
    (tmp_path / "pics" / "x.png").write_bytes(b"")
    allowed = [(tmp_path / "pics").resolve()]
    assert lies_in(tmp_path / "pics" / "x.png", allowed)
    (tmp_path / "pics").rename(tmp_path / "moved")
    (tmp_path / "pics").symlink_to(tmp_path / "secret")
    assert not lies_in(tmp_path / "pics" / "x.png", allowed)
    assert not lies_in(tmp_path / "secret" / "x.png", allowed)
