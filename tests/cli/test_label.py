"""`everylabel label` and `everylabel export` as a user runs them: real servers, stopped and started."""

import csv
import io
import json
import signal
import socket
import sqlite3
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from sklearn.datasets import load_digits
from typer.testing import CliRunner, Result

import everylabel as el
from everylabel.cli import app
from tests.web.servers import label, label_here

pytestmark = pytest.mark.usefixtures("own_place")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(part) for part in arguments])


def reviews(folder: Path, n: int = 30) -> Path:
    words = ["soap that cleans", "beans that taste", "lamps that shine"]
    rows = [f"r{i},a review of {words[i % 3]} number {i},{'soap' if i in (0, 3) else ''}" for i in range(n)]
    path = folder / "reviews.csv"
    path.write_text("\n".join(["key,body,kind", *rows]) + "\n")
    return path


def fetched(url: str) -> bytes:
    with urllib.request.urlopen(url) as reply:
        return bytes(reply.read())


def test_a_project_from_start_to_stop_and_on(tmp_path: Path) -> None:
    source = reviews(tmp_path)
    (tmp_path / "old.csv").write_text("id,label,person\nr1,beans,Ann\nr99,beans,Ann\n")
    options = ["--text-column", "body", "--label-column", "kind", "--id-column", "key", "--model", "tfidf"]
    with label(tmp_path, source, *options, "--classes", "soap,beans,lamps", "--import", "old.csv") as server:
        session = server.client.get("/api/session")
        assert (session["project"], session["kind"], session["items"]) == ("reviews.csv", "text", 30)
        assert [entry["labels"] for entry in session["classes"]] == [2, 1, 0]
        reply = server.client.post("/api/next")
        for _ in range(5):
            item = reply["next"]["item"]
            assert item["text"].startswith("a review of")
            reply = server.client.post("/api/label", item=item["id"], **{"class": int(item["id"][1:]) % 3})
        assert reply["progress"]["labelled"] == 8
        assert run("export", source, "-o", "labels.csv").exit_code == 0  # while the server runs
        assert len((tmp_path / "labels.csv").read_text().splitlines()) == 9
        twice = run("label", source, "--no-browser", "--port", "0")
        assert twice.exit_code == 2
        assert "in use by another server" in twice.output
        assert "for project 'reviews.csv' at http://127.0.0.1:" in twice.output
        code, text = server.stop()
    assert code == 0
    place = tmp_path / "reviews.csv.everylabel"
    assert f"stopped; everything is stored in {place}; to continue: everylabel label" in text
    assert "--label-column kind" in text
    assert "--classes" not in text  # the log has them
    with label(tmp_path, source) as server:  # options are remembered, imports are not repeated
        progress = server.client.get("/api/progress")
        assert (progress["labelled"], progress["answers"]) == (8, 8)
        assert server.stop(signal.SIGTERM)[0] == 0
    source.write_text(source.read_text().replace("number 7", "number seven"))
    changed = run("label", source, "--no-browser")
    assert changed.exit_code == 2
    assert "1 with other content: r7" in changed.output
    assert "--accept-changes" in changed.output
    with label_here(source, "--accept-changes", "--strategy", "margin", "--check-every", 5) as server:
        progress = server.client.get("/api/progress")
        assert progress["labelled"] == 8
        assert progress["settings"]["strategy"] == "margin"
        assert progress["settings"]["check_every"] == 5


def test_a_server_exports_the_columns_that_are_asked_for(tmp_path: Path) -> None:
    source = tmp_path / "reviews.csv"
    source.write_text("id,text,day,shop\n" + "".join(f"r{i},number {i},mon,a\n" for i in range(20)))
    with label_here(source, "--model", "tfidf", "--classes", "a,b") as server:
        item = server.client.post("/api/next")["next"]["item"]["id"]
        server.client.post("/api/label", item=item, **{"class": 0})
        for asked, there in (("", {"day", "shop"}), ("?columns=shop", {"shop"}), ("?columns=", set())):
            table = csv.DictReader(io.StringIO(fetched(f"{server.address}api/export{asked}").decode()))
            assert {"day", "shop"} & set(table.fieldnames or []) == there
        refused = httpx.get(f"{server.address}api/export?columns=taste")
        assert refused.status_code == 422
        assert "taste" in refused.text


def test_server_and_command_export_the_same(tmp_path: Path) -> None:
    x, y = load_digits(return_X_y=True)
    with label_here("digits") as server:
        reply = server.client.post("/api/next")
        for _ in range(12):
            item = reply["next"]["item"]["id"]
            reply = server.client.post("/api/label", item=item, **{"class": int(y[int(item)])})
        server.client.post("/api/cannot_tell", item=reply["next"]["item"]["id"])
        assert fetched(server.address + "api/image/0").startswith(b"\x89PNG")
        files: dict[str, Any] = {}
        for what, form in (("labels", "csv"), ("answers", "jsonl"), ("answers", "labelstudio")):
            files[f"{what}.{form}"] = fetched(f"{server.address}api/export?what={what}&format={form}")
        served = fetched(server.address + "api/export?what=predictions&format=csv")
        formats = server.client.get("/api/formats")
        for form in formats["tables"]:
            fetched(f"{server.address}api/export?format={form}")
        assert {"everylabel", "torch"} <= formats["models"].keys()
        for form in ("everylabel", "torch"):
            files[f"model.{form}"] = fetched(f"{server.address}api/model?format={form}")
    for name, data in files.items():
        what, form = name.split(".")
        result = run("export", "digits.everylabel", "--what", what, "--format", form, "-o", name)
        assert result.exit_code == 0, result.output
        if what != "model":
            assert (tmp_path / name).read_bytes() == data
    assert len(json.loads(files["answers.labelstudio"])) == 13
    rows = list(csv.DictReader(io.StringIO(served.decode())))
    assert len(rows) == 1797 - 12
    assert run("export", "digits", "--what", "predictions", "-o", "p.csv").exit_code == 0
    again = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))
    assert [row["row"] for row in again] == [row["row"] for row in rows]
    classifier = el.load_classifier(tmp_path / "model.everylabel")
    probs = classifier.predict_proba(np.asarray(x / 16.0)[[int(row["row"]) for row in rows]])
    assert np.allclose([float(row["probability"]) for row in rows], probs.max(axis=1), atol=2e-4)
    assert [row["label"] for row in again] == [row["label"] for row in rows]
    one, other = (
        np.array([[float(row[f"p({c})"]) for c in range(10)] for row in some]) for some in (again, rows)
    )
    np.testing.assert_allclose(one, other, atol=1.01e-6)  # the command may compute on several threads


def test_elsewhere_a_token_is_asked_for(tmp_path: Path) -> None:
    with label_here("digits", "--host", "0.0.0.0") as server:
        address, _, token = server.address.partition("?token=")
        assert len(token) > 20
        port = address.rstrip("/").rsplit(":", 1)[1]
        with pytest.raises(urllib.error.HTTPError, match="401"):
            fetched(f"http://127.0.0.1:{port}/api/session")
        ask = urllib.request.Request(
            f"http://127.0.0.1:{port}/api/session", headers={"authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(ask) as reply:
            assert json.load(reply)["items"] == 1797


def test_images_that_go_missing_are_reported(tmp_path: Path) -> None:
    from PIL import Image as pil

    folder = tmp_path / "photos"
    folder.mkdir()
    for i in range(6):
        pil.new("RGB", (9, 9), (40 * i, 0, 0)).save(folder / f"{i} ü.png")
    with label_here("photos", "--model", "pixels", "--classes", "a,b") as server:
        item = server.client.post("/api/next")["next"]["item"]
        assert fetched(server.address + item["image"][1:]).startswith(b"\x89PNG")
        (folder / item["id"]).unlink()
        with pytest.raises(urllib.error.HTTPError, match="404") as told:
            fetched(server.address + item["image"][1:])
        assert "no longer exists" in json.load(told.value)["error"]["message"]
        for wrong in ("../secret.png", "..%2f..%2fetc%2fpasswd", "/etc/passwd"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                fetched(f"{server.address}api/image/{wrong}")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nothing.csv"], "source 'nothing.csv' does not exist"),
        (["digits", "--strategy", "best"], "--strategy is 'best'; expected one of herding"),
        (["digits", "--layout", "tsne"], "--layout is 'tsne'"),
        (["digits", "--import", "none.csv"], "labels file 'none.csv' does not exist"),
        (["digits", "--host", "203.0.113.7"], "--host 203.0.113.7 and --port 8765 cannot be used"),
        (["digits", "--store", "mysql://x/y"], "expected a file's path or postgresql://"),
    ],
)
def test_errors_are_one_line(arguments: list[str], told: str) -> None:
    result = run("label", "--no-browser", *arguments)
    assert result.exit_code == 2
    assert told in result.output
    assert "Traceback" not in result.output


def test_a_port_in_use_is_reported() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run("label", "digits", "--no-browser", "--port", port)
    assert result.exit_code == 2
    assert f"--port {port} of --host 127.0.0.1 is in use" in result.output
    assert "--port 0 takes any" in result.output


def test_exports_that_cannot_be(tmp_path: Path) -> None:
    result = run("export", "digits", "-o", "x.csv")
    assert result.exit_code == 2
    assert "labels.sqlite' does not exist; expected the log of a project" in result.output
    with label_here("digits"):
        pass
    for arguments, told in (
        (["--what", "model", "-o", "m.npz"], "no labels of two classes yet"),
        (["--what", "predictions", "-o", "p.csv"], "there are no labels yet"),
        (["--what", "money", "-o", "p.csv"], "--what is 'money'"),
        (["-o", "p.xlsx"], "expected an ending of .csv (csv)"),
        (["-o", "no/such/p.csv"], "cannot be written"),
        (["--format", "labelstudio", "-o", "p.json"], "expected one of"),
    ):
        result = run("export", "digits", *arguments)
        assert result.exit_code == 2, result.output
        assert told in result.output


def labelled_reviews(folder: Path) -> Path:
    """Return a source with a few labels, the true ones of its third column."""
    source = reviews(folder)
    options = [
        "--text-column",
        "body",
        "--id-column",
        "key",
        "--model",
        "tfidf",
        "--classes",
        "soap,beans,lamps",
    ]
    with label_here(source, *options) as server:
        for i in range(9):
            server.client.post("/api/label", item=f"r{i}", **{"class": i % 3})
    return source


def test_a_refused_command_changes_nothing(tmp_path: Path) -> None:
    source = labelled_reviews(tmp_path)
    folder = tmp_path / "reviews.csv.everylabel"
    assert run("export", source, "--columns", "body", "-o", "before.csv").exit_code == 0
    kept = {name: (folder / name).read_bytes() for name in ("project.json", "features.npy", "embedder.npz")}
    other = ["--text-column", "kind", "--classes", "x,y", "--no-browser"]
    source.write_text(source.read_text().replace(",\n", ",lamps\n"))
    refused = run("label", source, *other)
    assert refused.exit_code == 2
    assert "30 with other content" in refused.output
    assert "Last time --text-column was body: leave that as it was" in refused.output
    assert "continue labelling with --accept-changes: " in refused.output
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refused = run("label", source, *other, "--accept-changes", "--port", taken.getsockname()[1])
    assert refused.exit_code == 2
    assert "of --host 127.0.0.1 is in use by another program, maybe an everylabel" in refused.output
    assert "or --port 0 takes any" in refused.output
    assert {name: (folder / name).read_bytes() for name in kept} == kept
    assert run("export", source, "--columns", "body", "-o", "after.csv").exit_code == 0
    assert (tmp_path / "after.csv").read_bytes() == (tmp_path / "before.csv").read_bytes()


def test_changed_source_is_exported_without_the_labels_of_changed_rows(tmp_path: Path) -> None:
    source = labelled_reviews(tmp_path)
    text = source.read_text()
    source.write_text(text.replace("number 4", "number four"))
    changed = run("export", source, "-o", "x.csv")
    assert changed.exit_code == 0, changed.output
    assert "1 with other content: r4" in changed.output
    assert "1 label is left out" in changed.output
    assert "labels of 8 items, of 30 in all" in changed.output
    source.write_text(text + "r30,a review of soap,\n")
    result = run("export", source, "-o", "x.csv", "--what", "predictions")
    assert result.exit_code == 0, result.output
    assert "predictions of 22 items without a label, of 31 in all" in result.output


def test_a_deleted_image_is_reported_before_anything_is_embedded(tmp_path: Path) -> None:
    from PIL import Image as pil

    (tmp_path / "photos").mkdir()
    for i in range(6):
        pil.new("RGB", (9, 9), (40 * i, 0, 0)).save(tmp_path / "photos" / f"{i}.png")
    with label_here("photos", "--model", "pixels", "--classes", "a,b") as server:
        server.client.post("/api/label", item="0.png", **{"class": 0})
    (tmp_path / "photos" / "3.png").unlink()
    refused = run("label", "photos", "--no-browser")
    assert refused.exit_code == 2
    assert "1 gone: 3.png). Put the files back under their old names" in refused.output
    assert not (tmp_path / "photos.everylabel" / "next").exists()


def test_imported_labels_that_add_classes_are_reported(tmp_path: Path) -> None:
    source = labelled_reviews(tmp_path)
    (tmp_path / "more.csv").write_text("id,label\nr10,soap\nr11,lampz\n")
    with label(tmp_path, source, "--import", "more.csv") as server:
        server.process.send_signal(signal.SIGINT)
        assert server.process.stderr is not None
        told = server.process.stderr.read()
    assert "note: more.csv adds 1 new class: lampz" in told
    assert told.rstrip().endswith("stopping ...")
    (tmp_path / "odd.csv").write_text("a,b\n1,2\n")
    refused = run("label", source, "--import", "odd.csv", "--no-browser")
    assert "--import-label-column and --import-id-column" in refused.output


def test_umap_that_is_not_installed_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("everylabel.projects.options.find_spec", lambda _: None)
    result = run("label", "digits", "--layout", "umap", "--no-browser")
    assert result.exit_code == 2
    assert "pip install 'everylabel[umap]'" in result.output


def test_a_model_that_is_not_there_leaves_nothing_behind(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers", reason="needs the extra everylabel[text]")
    reviews(tmp_path)
    (tmp_path / "empty").mkdir()
    result = run(
        "label", "reviews.csv", "--text-column", "body", "--model", "./no/such/folder", "--classes", "a,b"
    )
    assert result.exit_code == 2
    assert "error: model './no/such/folder' cannot be loaded (there is no such folder" in result.output
    assert "--model tfidf) needs no download" in result.output
    assert not (tmp_path / "reviews.csv.everylabel").exists()


def test_help_is_whole() -> None:
    told = " ".join(run("label", "--help").output.replace("│", " ").split())
    assert "The folder of the project; default: SOURCE.everylabel." in told


def test_class_names_are_learned_before_the_first_label(tmp_path: Path, minilm: str) -> None:
    classes = tmp_path / "classes.csv"
    classes.write_text("name,description\nsoap,washing and cleaning\nbeans,food and its taste\nlamps,\n")
    reviews(tmp_path)
    given = ("reviews.csv", "--text-column", "body", "--model", minilm)
    with label_here(*given, "--classes", "classes.csv") as server:
        task = server.client.post("/api/next")["next"]
        word = str(task["item"]["text"]).split()[3]
        best = int(np.argmax(task["probabilities"]))
        assert ["soap", "beans", "lamps"][best] == word
        told = server.client.get("/api/classes")["classes"]
        assert [each["description"] for each in told] == ["washing and cleaning", "food and its taste", ""]
        assert server.client.get("/api/progress")["names"]["used"]
    with label_here(*given, "--names-prior", "off") as server:
        assert server.client.post("/api/next")["next"]["probabilities"] is None
        assert server.client.get("/api/progress")["names"]["on"] is False


def test_a_test_set_is_labelled_first_and_exported_by_itself(tmp_path: Path) -> None:
    source = reviews(tmp_path)
    options = ["--text-column", "body", "--id-column", "key", "--model", "tfidf", "--test", "6"]
    with label_here(source, *options, "--classes", "soap,beans,lamps") as server:
        reply = server.client.post("/api/next")
        for n in range(12):
            item = reply["next"]["item"]["id"]
            assert (reply["next"]["reason"] == "test") == (n < 6)
            reply = server.client.post("/api/label", item=item, **{"class": int(item[1:]) % 3})
        assert (reply["progress"]["labelled"], reply["progress"]["test"]["labelled"]) == (6, 6)
    told = run("export", source, "--what", "test", "-o", "t.csv").output
    assert "labels and predictions of 6 test items" in told
    tested = list(csv.DictReader(io.StringIO((tmp_path / "t.csv").read_text())))
    assert [list(row)[:5] for row in tested] == [["id", "row", "label", "predicted", "probability"]] * 6
    for what, n in [("labels", 6), ("answers", 12), ("predictions", 18)]:
        assert run("export", source, "--what", what, "-o", "o.csv").exit_code == 0
        rows = list(csv.DictReader(io.StringIO((tmp_path / "o.csv").read_text())))
        assert len(rows) == n
        assert what == "answers" or not {row["id"] for row in rows} & {row["id"] for row in tested}
    refused = run("label", source, "--test", "half", "--no-browser", "--port", "0")
    assert "expected a number of items, or one of the columns" in refused.output


def test_a_log_that_is_gone_empty_or_another_s_is_not_begun_again_in_silence(tmp_path: Path) -> None:
    source = labelled_reviews(tmp_path)
    log = tmp_path / "reviews.csv.everylabel" / "labels.sqlite"
    (tmp_path / "kept").write_bytes(log.read_bytes())
    (tmp_path / "other").mkdir()
    other = labelled_reviews(tmp_path / "other")  # another project, of the same name
    theirs = Path(f"{other}.everylabel") / "labels.sqlite"
    for content, what in ((b"", "holds nothing"), (None, "is gone"), (theirs.read_bytes(), "is another one")):
        log.unlink() if content is None else log.write_bytes(content)
        for command in (["label", source, "--no-browser", "--port", 0], ["export", source, "-o", "x.csv"]):
            done = run(*command)
            assert done.exit_code == 2
            assert what in done.output
            assert "restore it or a backup" in done.output
        assert (log.read_bytes() if log.exists() else None) == content
    log.write_bytes((tmp_path / "kept").read_bytes())
    assert run("export", source, "-o", "x.csv").exit_code == 0
    log.unlink()
    with label_here(source, "--accept-changes") as server:
        assert server.client.get("/api/progress")["answers"] == 0


def test_a_log_that_cannot_be_read_now_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    source = labelled_reviews(tmp_path)
    path = tmp_path / "reviews.csv.everylabel" / "labels.sqlite"
    commands = (["label", source, "--no-browser", "--port", 0], ["export", source, "-o", "x.csv"])

    def refused(what: str) -> None:
        for command in commands:
            done = run(*command)
            assert done.exit_code == 2
            assert what in done.output
            assert "backup" not in done.output  # which would go in the place of a good log

    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        refused("database is locked")
    with closing(sqlite3.connect(path)) as newer, newer:
        newer.execute("UPDATE everylabel_items SET format = format + 1")
    refused("open it with the version of")


def test_given_labels_are_reviewed_and_exported_corrected(tmp_path: Path) -> None:
    source = reviews(tmp_path, 24)
    words = ("soap", "beans", "lamps")
    rows = [f"r{i},a review of {words[i % 3]} number {i},{words[(i + (i == 7)) % 3]}" for i in range(24)]
    source.write_text("\n".join(["key,body,kind", *rows]) + "\n")
    options = ["--text-column", "body", "--id-column", "key", "--model", "tfidf", "--label-column", "kind"]
    with label_here(source, *options, "--review", "--check-every", "0") as server:
        first = server.client.post("/api/next")["next"]
        assert (first["item"]["id"], first["by"]) == ("r7", "review")
        assert first["item"]["fields"] == []  # a random check must not show the given label
        server.client.post("/api/label", item="r7", **{"class": "beans"})
        assert server.client.get("/api/progress?person=me")["review"]["labels"] == 24
    done = run("export", source, "-o", "corrected.csv")
    assert done.exit_code == 0
    assert "labels of 24 items, of 24 in all" in done.output
    table = list(csv.DictReader((tmp_path / "corrected.csv").read_text().splitlines()))
    assert [row["label"] for row in table] == [words[i % 3] for i in range(24)]
    assert (table[7]["given"], table[6]["source"]) == ("lamps", "given")
    assert table[7]["source"] not in ("given", "")
