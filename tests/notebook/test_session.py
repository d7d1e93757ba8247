"""el.label: the page runs while Python continues."""

import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits
from starlette.applications import Starlette
from typer.testing import CliRunner

import everylabel as el
from everylabel.cli import app
from everylabel.core.arrays import softmax
from everylabel.models.classifier import LaplaceClassifier
from everylabel.web.access import Access
from tests.notebook.people import CLASSES, TEXTS, answer, answer_texts, get, headers, truth


def test_labels_and_model_are_live(capsys: pytest.CaptureFixture[str]) -> None:
    session = el.label(TEXTS, CLASSES, model="tfidf", check_every=2)
    printed = capsys.readouterr().out
    assert f"everylabel is ready: {session.address}" in printed
    assert "labels are in a temporary folder, deleted when Python ends; folder=" in printed
    assert session.records == []
    assert list(session.labels.columns) == ["row", "label", "shown"]
    with pytest.raises(el.EverylabelError, match="no labels of two classes yet"):
        session.model  # noqa: B018
    answer_texts(session, 1)
    first = session.records[0]
    assert first["shown"] == TEXTS[first["row"]]
    assert first["label"] == CLASSES[truth(first["shown"])]
    answer_texts(session, 24)
    assert len(session.labels) == 25
    assert session.classes == CLASSES
    assert repr(session) == f"Session(25 of {len(TEXTS)} labelled, 2 classes, {session.address})"
    assert isinstance(session.model, LaplaceClassifier)
    accuracy = session.wait(labels=25).accuracy
    assert accuracy is None or accuracy.low <= accuracy.estimate <= accuracy.high
    assert session.predict(["block my debit card", "", "wire my money"]).tolist() == [
        "card",
        None,
        "transfer",
    ]
    right = session.predict() == [CLASSES[truth(text)] for text in TEXTS]
    assert right.mean() > 0.9
    session.stop()
    session.stop()
    assert not session.running
    assert repr(session).endswith("2 classes, stopped)")
    assert session.model is session.model  # trained once for each state
    assert len(session.records) == 25
    assert session.predict(["my visa card"]).tolist() == ["card"]


def test_model_equals_the_exported_one() -> None:
    with el.label(TEXTS, CLASSES, model="tfidf", display=False) as session:
        answer_texts(session, 12)
        exported = get(session, "api/model?format=everylabel")
        (Path(tempfile.gettempdir()).parent / "model.npz").write_bytes(exported)
    theirs = el.load_classifier(Path(tempfile.gettempdir()).parent / "model.npz")
    features = np.random.default_rng(0).normal(size=(5, theirs.n_features_in_))
    np.testing.assert_allclose(
        theirs.predict_proba(features), session.model.predict_proba(features), atol=1e-6
    )


def test_two_sessions_run_at_once_and_one_continues() -> None:
    x = load_digits().data
    with el.label(TEXTS, CLASSES, model="tfidf", display=False) as one:
        with el.label(x[:50], ["a", "b"], show=[str(i) for i in range(50)], display=False) as two:
            assert one.address != two.address
            answer(two, 3, lambda item: int(item["text"]) % 2)
            answer_texts(one, 4)
        assert (len(one.records), len(two.records)) == (4, 3)
        answer_texts(one, 1)
        assert (len(one.records), len(two.records)) == (5, 3)


def test_features_with_texts_to_show() -> None:
    pandas = pytest.importorskip("pandas", reason="needs the extra everylabel[table]")
    x, y = load_digits(return_X_y=True)
    seen = pandas.DataFrame({"number": np.arange(200), "digit": y[:200] % 2})
    with el.label(x[:200], ["even", "odd"], show=seen, fields=["number"], display=False) as session:
        answer(session, 40, lambda item: int(y[int(item["fields"][0][1])]) % 2)
        assert session.predict(x[:200]).tolist() == session.predict().tolist()
        assert (session.predict(x[200:400]) == np.array(["even", "odd"])[y[200:400] % 2]).mean() > 0.7
        with pytest.raises(el.EverylabelError, match=r"items have 3 features; expected 64"):
            session.predict(np.zeros((2, 3)))
        with pytest.raises(el.EverylabelError, match=r"expected features \(n, 64\)"):
            session.predict(["a text"])
        assert session.records[0].keys() == {"row", "label", "number", "digit"}
        mean, scaling = session.model.posterior_.mean, session.model  # a slow twin of predict_proba
        h = (x[:5] - scaling.center_) @ scaling.matrix_ * scaling.scale_
        logits = np.c_[h, np.ones(5)] @ mean
        np.testing.assert_allclose(session.predict_proba(x[:5]).argmax(1), softmax(logits).argmax(1))


@pytest.mark.parametrize("form", ["pixels", "shares", "pil", "paths"])
def test_images_in_every_form(form: str, tmp_path: Path) -> None:
    pixels = (load_digits().images[:60] * 15.9).astype(np.uint8)
    y = load_digits().target[:60]
    images: Any = {
        "pixels": pixels,
        "shares": list(pixels / 255.0),
        "pil": [Image.fromarray(each) for each in pixels],
        "paths": [tmp_path / f"{i}.png" for i in range(60)],
    }[form]
    if form == "paths":
        for path, each in zip(images, pixels, strict=True):
            Image.fromarray(each).save(path)
    with el.label(images, ["small", "large"], model="pixels", display=False) as session:
        seen = set()

        def know(item: dict[str, Any]) -> int:
            seen.add(item["image"].removeprefix("/"))
            return int(y[int(item["id"])] > 4)

        answer(session, 12, know)
        assert all(get(session, image)[:4] == b"\x89PNG" for image in seen)
        assert session.predict(images[:3]).tolist() == session.predict()[:3].tolist()
        assert session.to_frame().label.notna().sum() == 12


def test_bad_argument_is_raised_before_anything_starts() -> None:
    for source, options, message in (
        (["a b"], {"text_column": "body"}, r"text_column is 'body' and the source has no columns"),
        ([], {}, "source is empty; expected texts, images"),
        ([3, 4], {}, r"source\[0\] is a int"),
        (TEXTS, {"strategy": "best"}, "^strategy is 'best'"),
        (TEXTS, {"classes": ["card", 3]}, "classes has 3, a int; expected names that are strings"),
        (TEXTS, {"classes": "card,card"}, "^classes 'card,card' names card more than once"),
        (TEXTS, {"port": 1 << 20}, "^port is 1048576; expected a whole number, 0 to 65535"),
        (TEXTS, {"port": "8765"}, "^port is '8765'; expected a whole number"),
        (TEXTS, {"token": "short"}, "token has 5 characters"),
        (TEXTS, {"watch": True}, "watch goes with a file"),
        (TEXTS, {"guidelines": "nothing.md"}, "guidelines"),
        (np.zeros((3, 2)), {"show": ["a"]}, "show has 1 rows and the features 3"),
        (np.zeros((3, 3, 8, 8)), {}, r"np.moveaxis\(images, 1, -1\)"),
        (np.full((3, 8, 8), -1.0), {}, "expected 0 to 1 or 0 to 255"),
        ({"train": {"a": 1}}, {}, "with splits train; pass one of them"),
        ("a text", {}, "source 'a text' does not exist"),
    ):
        with pytest.raises(el.EverylabelError, match=message):
            el.label(source, **{"model": "tfidf", **options})  # type: ignore[arg-type]


def test_folder_keeps_the_session_for_later(tmp_path: Path) -> None:
    folder = tmp_path / "cards.everylabel"
    with el.label(TEXTS, CLASSES, model="tfidf", folder=folder, display=False) as session:
        answer_texts(session, 6)
        assert session.folder == folder
    with el.label(TEXTS, folder=folder, display=False) as again:
        assert again.records == session.records
        assert again.classes == CLASSES
        assert b'"project":"cards"' in get(again, "api/session?person=ann").replace(b": ", b":")
    with pytest.raises(el.EverylabelError, match=r"has changed since it was labelled .* accept_changes"):
        el.label(TEXTS[5:], folder=folder)
    result = CliRunner().invoke(app, ["label", str(folder), "--no-browser"])
    assert result.exit_code == 2
    assert "everylabel.label(items, folder=" in " ".join(result.output.split())


def test_a_cell_that_runs_again_replaces_its_session(tmp_path: Path) -> None:
    source = tmp_path / "mails.csv"
    source.write_text("body\n" + "\n".join(TEXTS) + "\n")
    how = {"text_column": "body", "model": "tfidf", "display": False}
    first = el.label(source, CLASSES, folder=tmp_path / "mails.csv.everylabel", **how)  # type: ignore[arg-type]
    answer_texts(first, 4)
    with el.label(source, **how) as again:  # type: ignore[arg-type]
        assert not first.running
        assert again.folder == first.folder  # the project beside the file
        assert again.records == first.records


def test_labelling_a_file_leaves_no_trace_beside_it(tmp_path: Path) -> None:
    source = tmp_path / "mails.csv"
    source.write_text("body,kind\n" + "\n".join(f"{text},{i % 2}" for i, text in enumerate(TEXTS)) + "\n,1\n")
    with el.label(source, CLASSES, text_column="body", model="tfidf", display=False) as session:
        answer_texts(session, 2)
        table = session.to_frame()
        assert len(table) == len(TEXTS) + 1  # an empty one was left out
        assert table.label.notna().sum() == 2
        assert session.predict()[-1] is None or session.predict().shape == (len(TEXTS) + 1,)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mails.csv", "temporary"]


def test_public_session_needs_a_token_and_shows_only_a_link() -> None:
    token = "a-token-of-twenty-letters"
    with el.label(TEXTS, CLASSES, model="tfidf", token=token, display=False) as session:
        assert session.address.endswith(f"?token={token}")
        assert "<iframe" not in str(session._repr_html_())
        assert session.url("api/x?what=test").endswith(f"/api/x?what=test&token={token}")
        assert token not in repr(session)
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with browser.open(session.url("/api/export"), timeout=60) as reply:
            assert reply.status == 200


def test_only_notebooks_of_this_machine_can_embed_the_page() -> None:
    with el.label(TEXTS, CLASSES, model="tfidf", display=False, height=321) as session:
        policy = headers(session)["content-security-policy"]
        ancestors = policy.split("frame-ancestors ")[1].split(";")[0].split()
        assert "http://localhost:*" in ancestors
        assert {each.split("//")[-1].rpartition(":")[0] for each in ancestors if "//" in each} == {
            "localhost",
            "127.0.0.1",
            "[::1]",
        }
        assert policy.startswith("default-src 'self'; img-src 'self' data:; frame-ancestors ")
        shown = str(session._repr_html_())
        assert f'<iframe src="{session.address}"' in shown
        assert 'height="321"' in shown
    assert session._repr_html_() is None
    assert (
        "frame-ancestors 'none';" in Access(Starlette()).headers["content-security-policy"]
    )  # of all other servers


def test_records_work_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    with el.label(TEXTS, CLASSES, model="tfidf", display=False) as session:
        answer_texts(session, 1)
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(el.EverylabelError, match=r"pip install 'everylabel\[table\]'"):
            session.labels  # noqa: B018
        with pytest.raises(el.EverylabelError, match=r"pip install 'everylabel\[table\]'"):
            session.to_frame()
        assert len(session.records) == 1


SCRIPT = """
import everylabel as el
session = el.label(["my card", "my money", "his card", "his money"], ["card", "money"], model="tfidf")
"""


def test_script_ends_and_leaves_nothing_behind(tmp_path: Path) -> None:
    place = os.environ | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, "-W", "error", "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, env=place, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "everylabel is ready: http://127.0.0.1:" in done.stdout
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("everylabel-")] == []
