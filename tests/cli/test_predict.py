"""`everylabel predict` predicts new items as the project predicts its own."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from typer.testing import CliRunner, Result

import everylabel as el
from everylabel.cli import app
from tests.cli.test_label import labelled_reviews, reviews
from tests.web.servers import label_here

pytestmark = pytest.mark.usefixtures("own_place")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(part) for part in arguments])


def test_new_texts_are_predicted_as_the_project_would(tmp_path: Path) -> None:
    source = labelled_reviews(tmp_path)
    assert run("export", source, "--what", "predictions", "-o", "own.csv").exit_code == 0
    own = {row["id"]: row for row in csv.DictReader((tmp_path / "own.csv").read_text().splitlines())}
    (tmp_path / "new.csv").write_text(
        "body\na review of soap that cleans number 12\na review of beans that taste number 13\n  \n"
    )
    result = run("predict", "new.csv", "--project", "reviews.csv.everylabel", "-o", "new.jsonl")
    assert result.exit_code == 0, result.output
    assert "predictions of 2 items in new.jsonl" in result.output
    assert "1 of 3 texts is empty and was left out: 2" in result.output
    rows = [json.loads(line) for line in (tmp_path / "new.jsonl").read_text().splitlines()]
    assert [(row["row"], row["label"]) for row in rows] == [(0, "soap"), (1, "beans")]
    assert "id" not in rows[0]  # it has none of its own
    for row, name in zip(rows, ("r12", "r13"), strict=True):
        assert abs(row["probability"] - float(own[name]["probability"])) < 1e-5
        assert row["body"] == own[name]["body"]
    printed = run("predict", "new.csv", "--project", source)
    assert printed.exit_code == 0
    assert "0,soap," in printed.stdout
    (tmp_path / "one.csv").write_text("body\na review of soap\n")
    one = run("predict", "one.csv", "--project", source, "-o", "one.jsonl")
    assert "predictions of 1 item in one.jsonl" in one.output
    assert run("export", source, "--what", "model", "-o", "model.npz").exit_code == 0
    fit = tmp_path / "reviews.csv.everylabel" / "embedder.npz"
    features = el.embed([row["body"] for row in rows], fit=fit)
    probs = el.load_classifier(tmp_path / "model.npz").predict_proba(features)
    assert np.allclose(probs.max(axis=1), [row["probability"] for row in rows], atol=1e-5)


def test_missing_project_is_reported(tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("body\nsoap\n")
    wrong = run("predict", "new.csv", "--project", "nowhere.everylabel")
    assert wrong.exit_code == 2
    assert "--project 'nowhere.everylabel' does not exist; expected a project's folder" in wrong.output
    assert "source 'nowhere" not in wrong.output


def test_class_names_are_learned_for_a_dataset_stored_as_features(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minilm: str
) -> None:
    texts = [
        f"the {name} of a village in the north, number {i}" for i in range(12) for name in ("school", "river")
    ]
    x = el.embed(texts, minilm)
    y = np.tile([0, 1], 12)
    data: Any = {"classes": np.array(["school", "river"]), "model": np.array("minilm")}
    np.savez(tmp_path / "dbpedia_x.npz", X_train=x, y_train=y, X_test=x[:2], y_test=y[:2], **data)
    np.save(tmp_path / "new.npy", x)
    monkeypatch.setenv("EVERYLABEL_DATA", str(tmp_path))
    with label_here("dbpedia") as server:
        assert server.client.post("/api/next")["next"]["probabilities"] is not None
        assert server.client.get("/api/progress")["names"]["used"]
    predicted = {}
    for given in ((), ("--names-prior", "on"), ("--names-prior", "off")):
        predicted[given] = run("predict", "new.npy", "--project", "dbpedia.everylabel", *given)
    for given, result in list(predicted.items())[:2]:  # no label was given
        rows = list(csv.DictReader(result.stdout.splitlines()))
        assert [row["label"] for row in rows] == ["school", "river"] * 12, given
    assert "there are no labels yet" in list(predicted.values())[2].output
    with label_here("dbpedia", "--names-prior", "off", "--project", "plain.everylabel") as server:
        assert server.client.post("/api/next")["next"]["probabilities"] is None
        server.client.post("/api/label", item="0", **{"class": 0})
    named = run("predict", "new.npy", "--project", "plain.everylabel", "--names-prior", "on")
    assert [row["label"] for row in csv.DictReader(named.stdout.splitlines())] == ["school", "river"] * 12
    assert run("predict", "new.npy", "--project", "plain.everylabel", "--names-prior", "maybe").exit_code == 2


def test_new_images_and_features_are_predicted(tmp_path: Path) -> None:
    from PIL import Image as pil

    for place in ("photos", "more"):
        (tmp_path / place).mkdir()
        for i in range(12):
            colour = (20 * i, 0, 0) if i % 2 else (0, 0, 20 * i)
            pil.new("RGB", (9, 9), colour).save(tmp_path / place / f"{i:02}.png")
    (tmp_path / "more" / "bad.png").write_text("no image")
    with label_here("photos", "--model", "pixels", "--classes", "blue,red") as server:
        for i in range(6, 12):
            server.client.post("/api/label", item=f"{i:02}.png", **{"class": i % 2})
    result = run("predict", "more", "--project", "photos.everylabel", "-o", "p.csv")
    assert result.exit_code == 0, result.output
    assert "1 image cannot be read and is left out: bad.png" in result.output
    rows = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))
    assert [row["label"] for row in rows[6:]] == ["blue", "red"] * 3
    wrong = run("predict", reviews(tmp_path), "--text-column", "body", "--project", "photos.everylabel")
    assert "the new items are of kind 'text'; expected 'image'" in wrong.output
    x, y = load_digits(return_X_y=True)
    np.save(tmp_path / "x.npy", x[:50] / 16.0)
    np.save(tmp_path / "narrow.npy", x[:50, :9])
    with label_here("digits") as server:
        for i in range(100, 160):
            server.client.post("/api/label", item=str(i), **{"class": int(y[i])})
    result = run("predict", "x.npy", "--project", "digits.everylabel", "-o", "p.csv")
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))
    assert np.mean([int(row["label"]) == y[int(row["row"])] for row in rows]) > 0.6
    for arguments, told in (
        (["narrow.npy"], "has 9 features; expected 64"),
        (["more"], "was labelled on features that came with it"),
        (["none.npy"], "'none.npy' does not exist"),
        (["x.npy", "-o", "p.xlsx"], "expected an ending of .csv (csv), .jsonl (jsonl), .parquet (parquet)"),
    ):
        wrong = run("predict", *arguments, "--project", "digits.everylabel")
        assert wrong.exit_code == 2
        assert told in wrong.output


def test_without_the_source_a_project_predicts_and_exports_labels(tmp_path: Path) -> None:
    source = labelled_reviews(tmp_path)
    new = "body\na review of soap that cleans number 12\na review of beans that taste number 13\n"
    (tmp_path / "new.csv").write_text(new)
    asked = ("predict", "new.csv", "--project", "reviews.csv.everylabel")
    before = run(*asked)
    assert before.exit_code == 0, before.output
    (tmp_path / "elsewhere").mkdir()
    source.rename(tmp_path / "elsewhere" / source.name)
    after = run(*asked)
    assert after.exit_code == 0, after.output
    assert after.stdout == before.stdout
    for given in ("reviews.csv", "reviews.csv.everylabel"):
        exported = run("export", given, "-o", "known.csv")  # ids and labels are known without it
        assert exported.exit_code == 0, exported.output
        assert "reviews.csv' no longer exists: the export has ids, but no other columns" in (exported.output)
        assert len((tmp_path / "known.csv").read_text().splitlines()) == 10
        copied = run("backup", given, "-o", f"{given}.sqlite")  # it needs no source
        assert copied.exit_code == 0, copied.output
    moved = run("export", "elsewhere/reviews.csv", "--project", "reviews.csv.everylabel", "-o", "labels.csv")
    assert moved.exit_code == 0, moved.output
    assert len((tmp_path / "labels.csv").read_text().splitlines()) == 10
    (tmp_path / "reviews.csv.everylabel" / "digests.npy").write_bytes(b"")
    refused = run(*asked)
    assert refused.exit_code == 2, refused.output
    assert "reviews.csv' no longer exists; its project" in refused.output


def test_none_of_these_is_never_predicted(tmp_path: Path) -> None:
    source = labelled_reviews(tmp_path)
    with label_here(source) as server:
        server.client.post("/api/none", item="r20")
    result = run("export", source, "--what", "predictions", "-o", "p.csv")
    assert result.exit_code == 0, result.output
    assert '1 item is left out, answered "none of these"; --what answers lists them' in result.output
    assert "predictions of 20 items without a label, of 30 in all" in result.output
    rows = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))
    assert len(rows) == 20
    assert "r20" not in {row["id"] for row in rows}
    for given, expected in (("x.xlsx", ".parquet (parquet), or --format"), ("x.json", ".csv (csv)")):
        refused = run("export", source, "-o", given)
        assert refused.exit_code == 2
        assert expected in refused.output
        assert "labelstudio" not in refused.output


def test_predictions_of_several_classes_and_the_exported_model_decide_alike(tmp_path: Path) -> None:
    x, y = load_digits(return_X_y=True)
    np.save(tmp_path / "digits.npy", x[:200] / 16.0)
    with label_here("digits.npy", "--multi-label", "--classes", "even,round") as server:
        for i in range(60):
            there = [c for c, yes in enumerate([y[i] % 2 == 0, y[i] in (0, 6, 8, 9)]) if yes]
            server.client.post("/api/label_set", item=str(i), present=there)
    for command in (
        ("export", "digits.npy", "--what", "predictions", "-o", "own.csv"),
        ("export", "digits.npy", "--what", "all", "-o", "all.csv"),
        ("export", "digits.npy", "--what", "predicted", "-o", "queue.csv"),
        ("predict", "digits.npy", "--project", "digits.npy.everylabel", "-o", "new.csv"),
        ("export", "digits.npy", "--what", "model", "-o", "model.npz"),
    ):
        result = run(*command)
        assert result.exit_code == 0, result.output
    result = run("export", "digits.npy", "-o", "labels.csv")
    assert result.exit_code == 0, result.output
    assert "as JSON" not in result.output
    with label_here("digits.npy") as server:
        server.client.post("/api/classes", name="straight")
    result = run("export", "digits.npy", "-o", "labels.csv")
    assert "60 items are written as JSON, because some classes are unanswered" in result.output
    model = el.load_classifier(tmp_path / "model.npz")
    said = model.predict(np.load(tmp_path / "digits.npy"))
    assert (said != (model.predict_proba(x[:200] / 16.0) >= 0.5)).any()
    names = [";".join(np.array(["even", "round"])[row == 1]) or "[]" for row in said]
    for file, column, some in (
        ("new.csv", "label", range(200)),
        ("own.csv", "label", range(60, 200)),
        ("all.csv", "label", range(60, 200)),
        ("queue.csv", "guess", [i for i in range(60, 200) if names[i] != "[]"]),
    ):
        rows = list(csv.DictReader((tmp_path / file).read_text().splitlines()))
        told = {int(row["row"]): row[column] for row in rows}
        assert {i: told[i] for i in some} == {i: names[i] for i in some}
    assert set(told) == set(some)  # the queue holds no others
