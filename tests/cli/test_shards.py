"""`everylabel embed -o shards/` and `everylabel predict shards/`, as a user runs them."""

import csv
import hashlib
import io
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

import everylabel as el
from everylabel.cli import app
from everylabel.core.errors import EverylabelError
from everylabel.log.store import Store
from tests.cli.test_label import labelled_reviews
from tests.web.servers import label_here

pytestmark = pytest.mark.usefixtures("own_place")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(part) for part in arguments])


def lines(path: Path) -> list[str]:
    return [line for part in sorted(path.glob("part-*.jsonl")) for line in part.read_text().splitlines()]


def test_shards_are_embedded_and_predicted_as_one_file_is(tmp_path: Path) -> None:
    source = labelled_reviews(tmp_path)
    words = ["soap that cleans", "beans that taste", "lamps that shine"]
    new = [f"a review of {words[i % 3]} number {i}" for i in range(25)]
    (tmp_path / "new.csv").write_text("body\n" + "".join(f"{text}\n" for text in new))
    fit = tmp_path / "reviews.csv.everylabel" / "embedder.npz"
    embedded = run("embed", "new.csv", "-o", "shards/", "--fit", fit, "--shard-rows", 10)
    assert embedded.exit_code == 0, embedded.output
    assert "column 'body' is embedded (--text-column chooses another)" in embedded.output
    assert "25 rows of" in embedded.output
    assert "in 3 shards in shards/" in embedded.output
    predicted = run("predict", "shards/", "--project", source, "-o", "predictions", "--format", "jsonl")
    assert predicted.exit_code == 0, predicted.output
    assert "predictions of 25 items in predictions" in predicted.output
    assert (
        run("predict", "new.csv", "--project", source, "-o", "new.jsonl", "--columns", "none").exit_code == 0
    )
    slow = [json.loads(line) for line in (tmp_path / "new.jsonl").read_text().splitlines()]
    assert [json.loads(line) for line in lines(tmp_path / "predictions")] == slow
    before = lines(tmp_path / "predictions")
    (tmp_path / "predictions" / "part-000001.jsonl").unlink()
    again = run("predict", "shards/", "--project", source, "-o", "predictions", "--format", "jsonl")
    assert "note: 15 rows were predicted before" in again.output
    assert lines(tmp_path / "predictions") == before
    other = run("predict", "shards/", "--project", source, "-o", "predictions", "--format", "csv")
    assert "was started with --format .jsonl; this is --format .csv: name another folder" in other.output
    _refusals(tmp_path, source)


def _refusals(folder: Path, source: Path) -> None:
    without = run("predict", "shards/", "--project", source)
    assert (
        "'shards/' is a folder of shards and --out is missing; expected --out with a folder" in without.output
    )
    columns = run("predict", "shards/", "--project", source, "-o", "p", "--columns", "body")
    assert "shards hold features only" in columns.output
    ray = run("predict", "new.csv", "--project", source, "--ray", "auto")
    assert "--ray needs shards, and 'new.csv' is not a folder of shards" in ray.output
    part = folder / "shards" / "part-000002.npy"
    rows = part.read_bytes()
    part.unlink()
    missing = run("predict", "shards/", "--project", source, "-o", "p")
    assert "folder 'shards/' lacks 1 of 3 shards (part-000002.npy); expected all: run" in missing.output
    refused = run("predict", "shards/", "--project", source, "-o", "p.csv")
    assert refused.exit_code == 2
    assert "'shards/' is a folder of shards and --out is 'p.csv'; expected a folder" in refused.output
    part.write_bytes(rows)
    manifest = folder / "shards" / "manifest.json"
    stored = json.loads(manifest.read_text())
    stored["about"]["the model of digest"] = "another"
    manifest.write_text(json.dumps(stored))
    other = run("predict", "shards/", "--project", source, "-o", "p")
    assert "were made by another model (tfidf) than the features of project 'reviews.csv'" in other.output
    assert not (folder / "p").exists()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of pandas, by Dask
def test_a_folder_of_predictions_is_read_as_one_table(tmp_path: Path) -> None:
    pandas, dask = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    source = labelled_reviews(tmp_path)
    (tmp_path / "new.csv").write_text("body\n" + "".join(f"soap and beans {i}\n" for i in range(25)))
    fit = tmp_path / "reviews.csv.everylabel" / "embedder.npz"
    assert run("embed", "new.csv", "-o", "shards/", "--fit", fit, "--shard-rows", 10).exit_code == 0
    predict = ("predict", "shards/", "--project", source, "-o", "predictions/")
    assert run(*predict).exit_code == 0
    found = pandas.read_parquet("predictions/")
    assert found["row"].tolist() == list(range(25))
    assert dask.read_parquet("predictions/").compute()["row"].tolist() == list(range(25))
    polars = pytest.importorskip("polars")
    assert len(polars.read_parquet("predictions/*.parquet")) == 25
    folder = tmp_path / "predictions"
    (folder / "_manifest.json").rename(folder / "manifest.json")  # where it was before
    (folder / "part-000001.parquet").unlink()
    assert "note: 15 rows were predicted before" in run(*predict).output
    assert sorted(path.name for path in folder.glob("*.json")) == ["manifest.json"]
    assert len(list(folder.glob("*.parquet"))) == 3


def test_options_of_shards_are_refused_where_there_are_none(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("body\nsome text\n")
    for option in (("--ray", "auto"), ("--shard-rows", "5"), ("--worker-cpus", "2")):
        wrong = run("embed", "x.csv", "-o", "x.npy", *option)
        assert wrong.exit_code == 2
        assert f"{option[0]} is for shards, and -o is 'x.npy'; expected a folder" in wrong.output
    whole = run("embed", "x.csv", "-o", "shards/", "--whole-table")
    assert "--whole-table needs all rows at once, and a shard has only some" in whole.output
    assert not (tmp_path / "shards").exists()


def test_a_language_model_makes_the_same_rows_in_shards(tmp_path: Path, minilm: str) -> None:
    texts = [f"the {word} of a village, number {i}" for i in range(4) for word in ("school", "river")]
    (tmp_path / "x.csv").write_text("body\n" + "".join(f'"{text}"\n' for text in texts))
    for out in ("x.npy", "shards"):
        done = run("embed", "x.csv", "-o", out, "--model", minilm, "--text-column", "body")
        assert done.exit_code == 0, done.output
    shards = np.load(tmp_path / "shards" / "part-000000.npy")
    assert np.allclose(shards, np.load(tmp_path / "x.npy"), atol=1e-6)


def test_shards_are_labelled_and_exported(tmp_path: Path) -> None:
    labelled_reviews(tmp_path)
    texts = [f"a review of {('soap', 'beans')[i % 2]} number {i}" for i in range(30)]
    rows_of = (f"k{3 * i},{text},{i % 4}\n" for i, text in enumerate(texts))
    (tmp_path / "big.csv").write_text("key,body,stars\n" + "".join(rows_of))
    fit = tmp_path / "reviews.csv.everylabel" / "embedder.npz"
    embed = ("embed", "big.csv", "-o", "shards/", "--fit", fit, "--shard-rows", 10, "--text-column", "body")
    assert run(*embed).exit_code == 0
    wrong = run("label", "shards", "--id-column", "keys", "--no-browser")
    assert "column 'keys' is not in" in wrong.output
    refused = run("label", "big.csv", "--ray", "auto", "--no-browser")
    assert "--ray needs shards, and 'big.csv' is not a folder of shards" in refused.output
    assert "--watch is not available for a folder of shards" in run("label", "shards", "--watch").output
    assert "expected --import with a table" in run("label", "shards", "--label-column", "stars").output
    refused = run("label", "shards", "--network", "on")
    assert "--network on is not available for a folder of shards" in refused.output
    seen = set[str]()
    options = ("--classes", "soap,beans", "--check-every", 0, "--id-column", "key")
    with label_here("shards", *options) as server:
        task = server.client.post("/api/next", person="me")["next"]
        for _ in range(8):
            item = task["item"]
            assert item["text"] == texts[int(item["id"])]
            number = ("soap", "beans").index(item["text"].split()[3])
            seen.add(item["id"])
            task = server.client.post("/api/label", person="me", item=item["id"], **{"class": number})["next"]
        with pytest.raises(EverylabelError, match="found by their row number only"):
            server.client.get("/api/search", q="soap")
        assert [found["id"] for found in server.client.get("/api/search", q="17")["items"]] == ["17"]
    assert run("export", "shards", "-o", "labels.csv").exit_code == 0
    rows = list(csv.DictReader((tmp_path / "labels.csv").read_text().splitlines()))
    assert {row["row"] for row in rows} == seen
    assert list(rows[0]) == ["id", "row", "label", "key", "body", "stars"]
    assert all(row["label"] == row["body"].split()[3] == texts[int(row["row"])].split()[3] for row in rows)
    assert all(row["id"] == row["key"] == f"k{3 * int(row['row'])}" for row in rows)
    assert run("export", "shards", "-o", "few.csv", "--columns", "stars").exit_code == 0
    for path in ("few.csv", "labels.csv"):
        refused = run("export", "shards", "-o", "not.csv", "--show", path)
        assert refused.exit_code == 2
        assert f"{path}' is not the source of the shards" in refused.output
        assert "expected the file that they were made from, big.csv" in refused.output
    refused = run("export", "shards", "-o", "not.csv", "--show", "shards/manifest.json")
    assert "shards/manifest.json' cannot be split into shards; expected .parquet, .csv" in refused.output
    assert (tmp_path / "few.csv").read_text().splitlines()[0] == "id,row,label,stars"
    predicted = run("predict", "shards/", "--project", "shards.everylabel", "-o", "p", "--format", "jsonl")
    assert predicted.exit_code == 0, predicted.output
    assert len(lines(tmp_path / "p")) == 30
    (tmp_path / "new.csv").write_text("body\n" + "".join(f"{text}\n" for text in texts))
    new = run("predict", "new.csv", "--project", "shards.everylabel", "-o", "new.jsonl", "--columns", "none")
    assert new.exit_code == 0, new.output
    assert (tmp_path / "new.jsonl").read_text().splitlines() == lines(tmp_path / "p")
    (tmp_path / "shards" / "embedder.npz").unlink()  # an earlier version kept none
    old = run("predict", "new.csv", "--project", "shards.everylabel", "-o", "new.jsonl")
    assert "the model 'tfidf' is not here as it made the shards" in old.output
    assert "expected features of the new items by that model" in old.output
    one, other = (tmp_path / "shards" / f"part-00000{i}.npy" for i in (1, 2))
    for a, b in ((one, tmp_path / "x"), (other, one), (tmp_path / "x", other)):
        a.rename(b)
    assert "are not the 30 that were labelled last time" in run("label", "shards", "--no-browser").output
    one.unlink()
    assert "lacks 1 of 3 shards" in run("label", "shards", "--no-browser").output


def all_labelled(shards: str, n: int, *options: object) -> list[dict[str, Any]]:
    """Label n items of shards on the page; return their displayed content."""
    shown = []
    with label_here(shards, "--classes", "good,bad", "--check-every", 0, *options) as server:
        task = server.client.post("/api/next", person="me")["next"]
        for i in range(n):
            shown.append(task["item"])
            sent = {"item": task["item"]["id"], "class": i % 2}
            task = server.client.post("/api/label", person="me", **sent)["next"]
    return shown


def exported(*options: object) -> list[dict[str, Any]]:
    done = run("export", *options, "-o", "labels.jsonl")
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in Path("labels.jsonl").read_text().splitlines()]
    return sorted(rows, key=lambda row: row["row"])


def test_columns_of_several_files_are_exported_as_they_are(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    texts = [f"a review of {('soap', 'beans')[i % 2]} number {i}" for i in range(6)]
    tables: list[dict[str, Any]] = [
        {"body": texts[:2], "rating": [1, 2]},
        {"body": texts[2:4], "rating": [2.5, 3.5]},
        {"body": texts[4:], "seen": [{"at": b"x"}, None]},
    ]
    (tmp_path / "many").mkdir()
    for i, table in enumerate(tables):
        parquet.write_table(arrow.table(table), tmp_path / "many" / f"{i}.parquet")
    el.embed(texts, "tfidf", fit_out="fit.npz", cache=False)
    made = run("embed", "many", "-o", "shards/", "--fit", "fit.npz", "--text-column", "body")
    assert made.exit_code == 0, made.output
    all_labelled("shards", 6)
    rows = exported("shards")
    assert [row["body"] for row in rows] == texts
    assert [row["rating"] for row in rows] == [1, 2, 2.5, 3.5, None, None]
    assert [row["seen"] for row in rows] == [None] * 4 + ['{"at": "b\'x\'"}', None]
    assert list(exported("shards", "--columns", "body")[0]) == ["row", "label", "body"]


def test_images_that_a_table_holds_are_labelled_and_not_exported(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    images = []
    for i in range(6):
        file = io.BytesIO()
        Image.new("RGB", (8, 8), (40 * i, 0, 99)).save(file, "PNG")
        images.append(file.getvalue())
    el.embed([Image.open(io.BytesIO(one)) for one in images], "pixels", fit_out="fit.npz", cache=False)
    forms: dict[str, list[Any]] = {"raw": images, "packed": [{"bytes": one, "path": None} for one in images]}
    for name, values in forms.items():
        parquet.write_table(arrow.table({"n": list(range(6)), "image": values}), f"{name}.parquet")
        embed = ("embed", f"{name}.parquet", "-o", f"{name}/", "--image-column", "image")
        made = run(*embed, "--fit", "fit.npz")
        assert made.exit_code == 0, made.output
        all_labelled(name, 4)
        rows = exported(name)
        assert len(rows) == 4
        assert all(list(row) == ["row", "label", "n"] and row["n"] == row["row"] for row in rows)


def embedded(*arguments: object) -> None:
    """Embed a table of 12 numbered texts into the folder far."""
    texts = [f"a review of {('soap', 'beans')[i % 2]} number {i}" for i in range(12)]
    Path("a.csv").write_text("body\n" + "".join(f"{text}\n" for text in texts))
    el.embed(texts, "tfidf", fit_out="fit.npz", cache=False)
    made = run("embed", *arguments, "-o", "far/", "--fit", "fit.npz", "--text-column", "body")
    assert made.exit_code == 0, made.output


def test_source_at_an_address_is_shown_only_if_named(tmp_path: Path) -> None:
    pytest.importorskip("fsspec", reason="needs the extra everylabel[ray]")
    address = f"file://{tmp_path}/a.csv"
    embedded(address)
    assert all_labelled("far", 1)[0]["text"] is None
    shown = all_labelled("far", 3, "--show", address)
    assert all(item["text"].endswith(f"number {item['id']}") for item in shown)
    rows = exported("far", "--show", address)
    assert len(rows) == 4
    assert all(row["body"].endswith(f"number {row['row']}") for row in rows)
    for again in (run("label", "far", "--no-browser"), run("export", "far", "-o", "labels.jsonl")):
        assert f"remembers the table '{address}' to show" in again.output
        assert f"add --show {address}" in again.output
    made = run("predict", "far", "--project", "far", "--show", address, "-o", "predicted/")
    assert made.exit_code == 0, made.output


def test_shards_labelled_by_an_earlier_version_continue(tmp_path: Path) -> None:
    embedded("a.csv")
    all_labelled("far", 4)
    before = exported("far")
    stored = json.loads(Path("far/manifest.json").read_text())
    width = np.load("far/part-000000.npy").shape[1]
    known = stored["about"], [one["digest"] for one in stored["files"]], [(12, width)]
    digest = hashlib.blake2b(json.dumps(known, sort_keys=True).encode(), digest_size=8).hexdigest()
    with closing(Store("far.everylabel/labels.sqlite", "far")) as log:
        noted = log.items()
        assert noted is not None
        log.set_items(noted._replace(digests=[digest]))
    for refused in (run("label", "far", "--no-browser"), run("export", "far", "-o", "x.csv")):
        assert refused.exit_code == 2
        assert "these 12 rows are not the 12 that were labelled last time" in refused.output
        assert "continue labelling with --accept-changes" in refused.output
    all_labelled("far", 1, "--accept-changes")
    all_labelled("far", 1)
    after = exported("far")
    assert len(after) == 6
    assert [row for row in after if row["row"] in {one["row"] for one in before}] == before
