"""Items that join a project while it is served: found, embedded, recorded, learned."""

import json
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from everylabel.core.errors import EverylabelError
from everylabel.data.items import Sent
from everylabel.data.source_diff import RecordedRows
from everylabel.formats.tables import item_columns
from everylabel.labelling.desk import Desk
from everylabel.labelling.model.training import FeatureTable
from everylabel.labelling.service import Service
from everylabel.labelling.state.types import Refused
from everylabel.log.store import StoreError
from everylabel.models.embedding.texts import Tfidf
from everylabel.projects import arrivals
from everylabel.projects.arrivals import Watched, read_watched, whole_rows
from everylabel.projects.features import Pieces
from everylabel.projects.folder import LogUse
from everylabel.projects.log import open_log
from everylabel.projects.options import LabelOptions
from everylabel.projects.project import open_project
from everylabel.web import arrivals as web_arrivals
from everylabel.web.arrivals import Arrivals
from everylabel.web.item_view import ItemView, allowed_images

WORDS = ["card", "refund", "lost", "paid", "wrong", "money", "late", "order", "parcel", "broken", "phone"]


def sentence(i: int) -> str:
    return " ".join(np.random.default_rng(i).choice(WORDS, 6)) + f" {i}"


def line(i: int, **more: str) -> str:
    return json.dumps({"text": sentence(i), "kind": "", "split": "", **more}) + "\n"


def lines(start: int, stop: int) -> str:
    return "".join(line(i) for i in range(start, stop))


class Served:
    """A served project whose background thread is this one."""

    def __init__(self, service: Service, arrivals: Arrivals, shown: ItemView) -> None:
        self.service, self.arrivals, self.shown = service, arrivals, shown

    @property
    def problem(self) -> str:
        return self.arrivals.state.problem

    def look(self) -> int:
        """Read the source and let new items join; return the number of items."""
        self.arrivals.look()
        while self.arrivals.piece():
            pass
        return len(self.service.desk.ids)

    def label(self, item: str, name: str) -> None:
        self.service.jump("me", item).result()
        self.service.label("me", item, name).result()

    def labels(self) -> dict[str, str]:
        state = self.service.state
        return {state.ids[i]: state.classes[int(str(number))] for i, number in state.labels.items()}

    def pool(self) -> tuple[list[str], bytes]:
        """Return the ids and the features of the pool, to the bit."""
        ids = list(self.service.desk.ids)
        return ids, self.service.desk.rows.of(ids).tobytes()


@contextmanager
def served(path: Path, accept: bool = False, test: str | None = None, **options: Any) -> Iterator[Served]:
    """Yield a project that is watched."""
    known = {"text_column": "text", "model": "tfidf", "classes": ("a", "b"), **options}
    project = open_project(path, keep=False, log=LogUse(accept=accept), reader=read_watched, **known)
    with ExitStack() as stack:
        opening = open_log(project, LabelOptions(check_every=0, accept_changes=accept, test=test), print)
        store, project, state = stack.enter_context(opening)
        project.keep()
        desk = Desk(FeatureTable(project.ids_here, project.features), store, state)
        stack.callback(desk.close)
        shown = ItemView(project.without_features(), allowed=allowed_images(project))
        service = Service(desk, shown.item)
        watched = Watched(project.source, project.options)
        yield Served(service, Arrivals(desk, shown, print, test, watched), shown)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERYLABEL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    path = tmp_path / "inbox.jsonl"
    path.write_text(lines(0, 30))
    return path


def test_joined_items_are_identical_after_a_restart(inbox: Path) -> None:
    with served(inbox) as made:
        assert made.look() == 30
        made.label("3", "a")
        inbox.write_text(lines(0, 34))
        assert made.look() == 34
        made.label("33", "b")
        before = made.pool()
    assert (inbox.parent / "inbox.jsonl.everylabel" / "joined").exists()
    with served(inbox) as made:
        assert made.pool() == before
        assert made.labels() == {"3": "a", "33": "b"}
        assert made.look() == 34
    assert not (inbox.parent / "inbox.jsonl.everylabel" / "joined").exists()


def test_missing_and_changed_rows_are_reported_not_applied(inbox: Path) -> None:
    with served(inbox) as made:
        made.label("3", "a")
        inbox.write_text(lines(0, 32).replace(sentence(3), "quite another message"))
        assert made.look() == 32  # what is new joins all the same
        assert "1 with other content: 3" in made.problem
        assert made.shown.item("3")["text"] == sentence(3)
        inbox.write_text(lines(0, 32))
        made.look()
        assert made.problem == ""
        inbox.write_text("no JSON\n")
        assert made.look() == 32
        assert "cannot be read as it is now" in made.problem
        inbox.write_text(lines(2, 32))
        assert made.look() == 32
        assert "2 gone: 0, 1" in made.problem
    with pytest.raises(EverylabelError, match="2 gone: 0, 1"), served(inbox):
        pass
    with served(inbox, accept=True) as made:
        assert made.look() == 30
        assert made.labels() == {"3": "a"}


def test_a_table_to_show_is_refused_beside_one_that_is_watched(inbox: Path) -> None:
    with pytest.raises(EverylabelError, match=r"--show goes with a \.npy or \.npz file of features"):
        open_project(inbox, classes=["a", "b"], show=inbox, reader=read_watched)


def test_rows_that_were_gone_wait_for_the_next_start(inbox: Path) -> None:
    with served(inbox) as made:
        made.label("29", "b")
    inbox.write_text(lines(0, 29))
    with served(inbox, accept=True) as made:
        inbox.write_text(lines(0, 31))
        assert made.look() == 30  # the new one
        assert "1 have returned" in made.problem
    with served(inbox) as made:
        assert made.look() == 31
        assert made.labels() == {"29": "b"}


def test_labels_and_test_rows_come_with_rows(inbox: Path) -> None:
    options: Any = {"label_column": "kind", "test": "split", "classes": None}
    first = "".join(line(i, kind="ab"[i % 2], split="test" if i < 2 else "") for i in range(20))
    later = line(20, kind="b") + line(21, kind="c") + line(22, kind="a", split="test") + line(23)
    inbox.write_text(first)
    with served(inbox, **options) as made:
        assert made.look() == 20
        inbox.write_text(first + later)
        assert made.look() == 24
        state = made.service.state
        assert (len(state.labels), len(state.test_labels)) == (20, 3)
        assert state.classes == ["a", "b", "c"]
        labels = made.labels()
    with served(inbox, **options) as made:
        assert made.labels() == labels
        assert len(made.service.state.test_labels) == 3
        inbox.write_text(first + later + line(24).rstrip())  # no line end yet
        assert made.look() == 24
        assert made.problem == ""


def test_labels_that_make_too_many_classes_are_reported(inbox: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("everylabel.labelling.joining.MOST_CLASSES", 3)
    first = "".join(line(i, kind="ab"[i % 2]) for i in range(20))
    inbox.write_text(first)
    with served(inbox, label_column="kind", classes=None) as made:
        assert made.look() == 20
        made.service.classes.add("me", "of the page").result()
        inbox.write_text(first + line(20, kind="a") + line(21, kind="c"))
        assert made.look() == 20
        assert "new items cannot join now: classes would be 4; expected 3" in made.problem
        monkeypatch.setattr("everylabel.labelling.joining.MOST_CLASSES", 4)
        assert made.look() == 22
        assert made.problem == ""


def test_an_id_that_comes_twice_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "inbox.jsonl"
    text = "".join(line(i, id=f"m{i}") for i in range(9))
    path.write_text(text)
    with served(path) as made:
        path.write_text(text + line(9, id="m8"))
        assert made.look() == 9
        assert "ids are not unique" in made.problem
        path.write_text(text + line(9, id="m9"))
        assert made.look() == 10
        assert made.shown.name("m9") == "m9"


def test_features_that_are_others_than_before_are_refused(
    inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = inbox.parent / "inbox.jsonl.everylabel"
    with served(inbox) as made:
        made.label("3", "a")
        inbox.write_text(lines(0, 34))
        made.look()
    with served(inbox) as made:
        before = made.pool()
    for name in ("features.npy", "digests.npy"):
        (folder / name).unlink()
    with monkeypatch.context() as another_library:
        usual = Tfidf.encode
        another_library.setattr(Tfidf, "encode", lambda self, items: np.float32(1.5) * usual(self, items))
        another_library.setenv("EVERYLABEL_CACHE", str(inbox.parent / "another"))
        with pytest.raises(EverylabelError, match=r"the features of 34 items \(0, 1, 2"), served(inbox):
            pass
        with served(inbox, accept=True) as made:
            assert made.labels() == {"3": "a"}
            now = made.pool()
            assert now != before
    with served(inbox) as made:  # these are the features from now on
        assert made.pool() == now
    (folder / "embedder.npz").unlink()  # which has TF-IDF learn from all rows
    with served(inbox) as made:
        assert made.labels() == {"3": "a"}


def texts(*numbers: int) -> list[Sent]:
    return [Sent.of(sentence(i), None, {"from": "mail", "split": str(i)}) for i in numbers]


def test_sent_item_joins_once_and_stays(inbox: Path) -> None:
    with served(inbox) as made:
        made.label("3", "a")
        named = Sent.of(sentence(99), "t 99", {})
        assert made.arrivals.send([*texts(40, 41, 41), named]) == 3
        assert made.arrivals.send([*texts(41, 42), named]) == 1  # one of them is new
        assert len(made.service.desk.ids) == 34
        made.label("t 99", "b")
        inbox.write_text(lines(0, 31) + line(40))  # the same text as one that was sent: another item
        assert made.look() == 36
        made.label("31", "a")
        assert made.shown.name("30") == "30"
        assert made.shown.project.ids[-4:] == [*(one.id for one in texts(40, 41)), "t 99", texts(42)[0].id]
        shown = made.shown.item(texts(40)[0].id)
        assert (shown["text"], shown["fields"]) == (sentence(40), [["split", "40"], ["from", "mail"]])
        before, ids = made.pool(), list(made.service.desk.ids)
    with served(inbox) as made:
        assert made.pool() == before
        assert made.service.desk.ids == ids
        assert made.labels() == {"3": "a", "t 99": "b", "31": "a"}
        assert made.arrivals.send(texts(42)) == 0
        project = made.shown.project
        exported = item_columns(project)
        sent = list(project.ids).index("t 99")
        assert exported.before["row"].of(sent) is None
        assert exported.after["text"].of(sent) == sentence(99)
        assert made.look() == 36


def test_texts_that_are_sent_at_once_stay_with_their_ids(
    inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(inbox) as one:
        embed = arrivals.embed_piece

        def slowly(*what: Any) -> Any:  # so that the others wait
            time.sleep(0.02)
            return embed(*what)

        monkeypatch.setattr(web_arrivals, "embed_piece", slowly)
        with ThreadPoolExecutor(4) as pool:
            sent = [pool.submit(one.arrivals.send, texts(number)) for number in range(100, 108)]
            assert [each.result() for each in sent] == [1] * 8
        for number in range(100, 108):
            (only,) = texts(number)
            assert one.shown.item(only.id)["text"] == only.text
        assert list(one.shown.project.ids) == list(one.service.desk.ids)


def test_ids_are_sent_with_one_text_only(tmp_path: Path) -> None:
    path = tmp_path / "inbox.jsonl"
    path.write_text("".join(line(i, id=f"m{i}") for i in range(9)))
    with served(path) as made:
        assert made.arrivals.send([Sent(f"m{i}", sentence(i)) for i in (8, 9, 10)]) == 2
        for wrong in ([Sent("m9", "other")], [Sent("m1", "x")], [Sent("new", "x"), Sent("new", "y")]):
            with pytest.raises(Refused, match="id") as refused:
                made.arrivals.send(wrong)
            assert (refused.value.status, refused.value.code) == (409, "id_taken")
        path.write_text("".join(line(i, id=f"m{i}") for i in range(12)))  # two of them were sent
        assert made.look() == 12
        assert made.shown.project.row(list(made.shown.project.ids).index("m11")) == 11
        before = made.pool()
    with served(path) as made:
        assert made.pool() == before
        assert sorted(made.service.desk.ids) == sorted(f"m{i}" for i in range(12))
        assert made.look() == 12
        assert made.problem == ""


def test_a_new_row_never_gets_a_name_that_was_sent(inbox: Path) -> None:
    with served(inbox) as made:
        assert made.arrivals.send([Sent("30", "sent by this name")]) == 1
        inbox.write_text(lines(0, 31))
        assert made.look() == 32
        assert made.shown.item("30")["text"] == "sent by this name"
        ids = list(made.service.desk.ids)
    with served(inbox) as made:
        assert made.service.desk.ids == ids


def test_unwritten_item_is_not_shown(inbox: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(inbox) as made:
        log = made.service.desk.log
        with monkeypatch.context() as broken:
            broken.setattr(log, "append", lambda events: (_ for _ in ()).throw(OSError("disk full")))
            with pytest.raises(OSError, match="disk full"):
                made.arrivals.send(texts(50))
        assert len(made.shown.project.ids) == len(made.service.desk.ids) == 30
        assert made.arrivals.send(texts(50)) == 1


@pytest.mark.parametrize(
    ("written", "whole"),
    [
        ("a,b\n1,2\n", "a,b\n1,2\n"),
        ("a,b\n1,2\n3", "a,b\n1,2\n"),
        ('a,b\n1,2\n3,"x\n', "a,b\n1,2\n"),
        ('a,b\n1,2\n3,"x\ny"', "a,b\n1,2\n"),
        ('a,b\n1,2\n3,"x\ny"\n', 'a,b\n1,2\n3,"x\ny"\n'),
        ('a,b\n5" pipe,2\n', 'a,b\n5" pipe,2\n'),
        ("a,b\n1,2\nä"[:-1], "a,b\n1,2\n"),
    ],
)
@pytest.mark.parametrize("encoding", [None, "utf-16"])
def test_half_written_rows_are_waited_for(
    tmp_path: Path, written: str, whole: str, encoding: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(written.encode(encoding or "utf-8"))
    data, unfinished = whole_rows(path, encoding)
    assert data.decode(encoding or "utf-8") == whole
    assert unfinished == (written != whole)
    monkeypatch.setattr(arrivals, "QUIET", -1.0)  # nobody has written for long: what looks whole counts
    assert whole_rows(path, encoding)[1] == (written in ("a,b\n1,2\n3", 'a,b\n1,2\n3,"x\n'))


def test_half_a_character_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": "' + "ä".encode()[:1])
    assert whole_rows(path, None) == (b'{"a": 1}\n', True)


def test_pieces_that_are_damaged_or_of_another_model_are_left_out(tmp_path: Path) -> None:
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    pieces = Pieces(tmp_path, "text", None)
    for i in range(4):
        pieces.add([f"{i:016x}"], rows[i : i + 1])
    np.testing.assert_array_equal(pieces.read().rows, rows)
    files = sorted((tmp_path / "joined").iterdir())
    data = bytearray(files[1].read_bytes())
    data[data.index(rows[1].tobytes()) + 2] ^= 1
    files[1].write_bytes(data)
    files[3].write_bytes(files[3].read_bytes()[:100])
    assert list(pieces.read().row_of) == [f"{i:016x}" for i in (0, 2)]
    Pieces(tmp_path, "text", "other").add(["f" * 16], rows[:1, :2])
    assert list(Pieces(tmp_path, "text", "other").read().row_of) == ["f" * 16]
    assert list(pieces.read().row_of) == [f"{i:016x}" for i in (0, 2)]


def test_joined_rows_of_0_2_are_read_but_for_half_a_record(tmp_path: Path) -> None:
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    header = json.dumps({"version": 1, "kind": "text", "model": None, "width": 3}).encode() + b"\n"
    records = [
        f"{i:016x}".encode() + zlib.crc32(row.tobytes()).to_bytes(4, "little") + row.tobytes()
        for i, row in enumerate(rows)
    ]
    path = tmp_path / "joined.rows"
    path.write_bytes(header + b"".join(records) + records[0][:9])
    pieces = Pieces(tmp_path, "text", None)
    np.testing.assert_array_equal(pieces.read().rows, rows)
    path.write_bytes(header + records[0] + records[1][:-1] + b"x")
    assert list(pieces.read().row_of) == [f"{0:016x}"]
    assert not Pieces(tmp_path, "text", "other").read().row_of


def test_rows_that_could_not_be_noted_are_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "inbox.jsonl"
    path.write_text(lines(0, 30))
    with served(path) as made:
        assert made.look() == 30
        log, usual, tried = made.arrivals.desk.log, made.arrivals.desk.log.set_items, list[int]()

        def fails_once(known: RecordedRows) -> None:
            tried.append(1)
            if len(tried) == 1:
                raise StoreError("nothing was saved: the disk is full")
            usual(known)

        monkeypatch.setattr(log, "set_items", fails_once)
        path.write_text(lines(0, 34))
        made.look()
        assert made.look() == 34


def test_nothing_is_embedded_while_the_log_refuses_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "inbox.jsonl"
    path.write_text(lines(0, 30))
    with served(path) as made:
        pieces = made.shown.project.folder / "joined"
        monkeypatch.setattr(made.arrivals.desk.log, "refusal", lambda: StoreError("the disk is full"))
        with pytest.raises(StoreError):
            made.arrivals.send([Sent.of("a text", "mail 1", {})])
        assert not pieces.exists()
        monkeypatch.undo()
        assert made.arrivals.send([Sent.of("a text", "mail 1", {})]) == 1
        assert len(list(pieces.iterdir())) == 1


def test_an_image_that_is_a_link_to_elsewhere_does_not_join(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for i, place in enumerate([folder / "a.png", folder / "b.png", tmp_path / "private.png"]):
        Image.new("RGB", (8, 8), (50 * i, 0, 0)).save(place)
    with served(folder, text_column=None, model="pixels") as project:
        (folder / "c.png").symlink_to(tmp_path / "private.png")
        Image.new("RGB", (8, 8), (0, 200, 0)).save(folder / "d.png")
        for _ in range(3):
            project.arrivals.look()
            while project.arrivals.piece():
                pass
        assert sorted(project.shown.project.ids) == ["a.png", "b.png", "d.png"]
