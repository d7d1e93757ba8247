"""embed: the same rows from all inputs, cached, resumable, in constant memory; and errors."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import everylabel as el
from everylabel.core.errors import EverylabelWarning
from everylabel.models.embedding import choose
from everylabel.models.embedding import embed as embedding

PAIRS = [(a, b) for a in ("card", "money", "loan") for b in ("lost", "late")]
TEXTS = [f"{a} {b} number {i}" for i in range(20) for a, b in PAIRS]


class Counting:
    """A backend that counts encoded items; features are length, words, and a constant."""

    key, chunk = "counting", 8

    def __init__(self) -> None:
        self.calls = 0
        self.fails_at = 10**9

    def encode(self, items: Any) -> np.ndarray:
        self.calls += 1
        if self.calls >= self.fails_at:
            raise KeyboardInterrupt
        return np.array([[len(text), text.count(" "), 1] for text in items], dtype=np.float32)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Counting:
    backend = Counting()
    monkeypatch.setattr(embedding_module, "choose", lambda *_, **__: backend)
    return backend


embedding_module = sys.modules["everylabel.models.embedding.embed"]


def test_lists_iterators_and_files_give_the_same_rows(counting: Counting, tmp_path: Path) -> None:
    expected = [[len(text), text.count(" "), 1] for text in TEXTS]
    sources: list[Any] = [TEXTS, tuple(TEXTS), iter(TEXTS), np.array(TEXTS), (text for text in TEXTS)]
    for source in sources:
        np.testing.assert_array_equal(embedding(source, cache=False), expected)
    mapped = embedding(TEXTS, out=tmp_path / "new" / "x.npy", dtype="float16")
    assert isinstance(mapped, np.memmap)
    assert mapped.dtype == np.float16
    np.testing.assert_array_equal(mapped, expected)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["x.npy"]


def test_the_second_run_encodes_nothing_and_a_longer_list_only_the_rest(counting: Counting) -> None:
    first = el.embed(TEXTS[:80])
    assert counting.calls == 10
    np.testing.assert_array_equal(el.embed(TEXTS[:80]), first)
    assert counting.calls == 10
    el.embed(TEXTS[:88])
    assert counting.calls == 11
    el.embed([*TEXTS[:7], "another", *TEXTS[8:80]])
    assert counting.calls == 12  # one chunk has another content
    counting.key = "another model"
    el.embed(TEXTS[:8])
    assert counting.calls == 13


def test_a_stopped_run_resumes(counting: Counting, tmp_path: Path) -> None:
    counting.fails_at = 6
    with pytest.raises(KeyboardInterrupt):
        el.embed(TEXTS, out=tmp_path / "x.npy")
    assert list(tmp_path.glob("x.npy*")) + list(tmp_path.glob("*.part")) == []  # nothing half-written
    counting.fails_at = 10**9
    done: list[int] = []
    el.embed(TEXTS, out=tmp_path / "x.npy", progress=done.append)
    assert counting.calls == 6 + 10  # 15 chunks, of which 5 were done
    assert done[:2] == [0, 8]
    assert done[-1] == len(TEXTS)


def test_a_damaged_cache_is_made_again(counting: Counting, cache: Path) -> None:
    first = el.embed(TEXTS)
    for path in cache.rglob("*.npy"):
        path.write_bytes(path.read_bytes()[:40])
    np.testing.assert_array_equal(el.embed(TEXTS), first)
    for path in cache.rglob("*.npy"):
        np.save(path, np.zeros((1, 3), np.float32))
    np.testing.assert_array_equal(el.embed(TEXTS), first)


def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    """Ten times the rows, the same peak: measured by the process itself, in a process of its own."""
    code = f"""
import resource, sys
import numpy as np
import everylabel as el
module = sys.modules[el.embed.__module__]
class Wide:
    key, chunk = "wide", 1024
    def encode(self, items):
        return np.ones((len(items), 384), np.float32)
module.choose = lambda *_, **__: Wide()
def texts(n):
    return (f"text number {{i}}" for i in range(n))
def peak(n):
    el.embed(texts(n), out={str(tmp_path / "x.npy")!r}, cache=False)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
small, large = peak(30_000), peak(200_000)
print((large - small) * 1024 / (170_000 * 384 * 4))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(result.stdout) < 0.1  # of what the new rows take


def test_tfidf_separates_topics() -> None:
    features = el.embed(TEXTS, "tfidf")
    labels = [("card", "money", "loan").index(text.split()[0]) for text in TEXTS]
    mean = el.fit_map(features[::2], labels[::2], 3, prior_precision=0.1)
    post = el.laplace(mean, features[::2], prior_precision=0.1)
    assert np.mean(np.argmax(el.predict_proba(post, features[1::2]), 1) == labels[1::2]) == 1.0
    assert el.embed([" ".join(f"word{i}" for i in range(300))] * 3, "tfidf").shape == (3, 3)
    many = [f"word{i} word{i + 1} word{i + 2}" for i in range(400)]
    assert el.embed(many, "tfidf").shape == (400, 256)


def test_without_the_extra_texts_fall_back_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "find_spec", lambda _: None)
    with pytest.warns(EverylabelWarning, match=r"TF-IDF \+ SVD.*everylabel\[text\]") as caught:
        features = el.embed(TEXTS)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert len(features) == len(TEXTS)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("sentence_transformers", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(el.EverylabelError, match=r"needs sentence_transformers .*everylabel\[text\]"):
        el.embed(TEXTS, f"st:{tmp_path}")  # a model that nothing else can run
    with pytest.raises(el.EverylabelError, match=r"needs transformers .*everylabel\[text\]"):
        el.embed(TEXTS, "cls:any")


def test_real_minilm(minilm: str, real_data: Path) -> None:
    with (real_data / "official" / "banking77" / "test.csv").open() as file:
        next(file)
        texts = [next(file).rpartition(",")[0].strip('"') for _ in range(40)]
    expected = np.load(real_data / "banking77_minilm384.npz")["X_test"][:40].astype(np.float32)
    np.testing.assert_allclose(el.embed(texts, f"mean:{minilm}", batch_size=7), expected, atol=2e-3)
    pooled = el.embed(texts, minilm)
    np.testing.assert_allclose(pooled, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=2e-3)


def test_real_minilm_knows_what_belongs_together(minilm: str) -> None:
    texts = ["my card was stolen", "someone took my bank card", "what is the weather today", "\ud800 odd"]
    a, b, c, _ = el.embed(texts, minilm)
    assert a @ b > 0.6 > a @ c
    np.testing.assert_allclose(np.linalg.norm(a), 1.0, atol=1e-5)
    first = el.embed(texts[:1], f"cls:{minilm}")
    assert first.shape == (1, 384)
    assert not np.allclose(first, el.embed(texts[:1], f"mean:{minilm}"))


def test_tokens_of_a_tiny_bert(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the extra everylabel[text]")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "card", "lost", "money"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizer(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path / "bert")
    config = transformers.BertConfig(
        vocab_size=8,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
    )
    model = transformers.BertModel(config).eval()
    model.save_pretrained(tmp_path / "bert")
    texts = ["card", "card lost money card", "lost"]
    features = el.embed(texts, f"cls:{tmp_path / 'bert'}", batch_size=2)
    tokens = transformers.AutoTokenizer.from_pretrained(tmp_path / "bert")(texts[1], return_tensors="pt")
    expected = model(**tokens).last_hidden_state[0, 0].detach().numpy()
    np.testing.assert_allclose(features[1], expected, atol=1e-5)
    long = el.embed(["card lost " * 7, "card lost " * 400], f"cls:{tmp_path / 'bert'}")
    np.testing.assert_allclose(long[0], long[1], atol=1e-5)  # cut off where the model ends
    averaged = el.embed(texts, f"mean:{tmp_path / 'bert'}", batch_size=3)  # padded to the longest
    alone = model(
        **transformers.AutoTokenizer.from_pretrained(tmp_path / "bert")(texts[0], return_tensors="pt")
    )
    np.testing.assert_allclose(averaged[0], alone.last_hidden_state[0].mean(0).detach().numpy(), atol=1e-5)


def test_a_model_out_of_reach_is_named(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers", reason="needs the extra everylabel[text]")
    (tmp_path / "empty").mkdir()
    with pytest.raises(el.EverylabelError, match=r"cannot be loaded.*model='tfidf'.*needs no download"):
        el.embed(["a text"], f"cls:{tmp_path / 'empty'}")


def test_missing_network_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    constants = pytest.importorskip("huggingface_hub.constants", reason="needs the extra everylabel[text]")
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # where nobody answers
    for name in ("nowhere/at-all", "cls:nowhere/at-all"):
        with pytest.raises(el.EverylabelError, match=r"which cannot reach 127.0.0.1.*--model FOLDER"):
            el.embed(["a text"], name)
    with pytest.raises(el.EverylabelError, match="no such folder, and no model has such a name"):
        el.embed(["a text"], "./no/such/folder")


def test_a_model_that_a_package_carries_needs_no_network(
    minilm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", "nowhere")
    np.testing.assert_allclose(
        el.embed(["a text"], "minilm", cache=False), el.embed(["a text"], minilm), atol=1e-6
    )


def numbers() -> Iterator[int]:
    yield from range(3)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([], "items is empty"),
        (3, "items is a int"),
        ("a single text", "expected a list"),
        (numbers(), r"items\[0\] is a int"),
        (["text", None], r"items\[1\] is a NoneType"),
        ([None, "hi"], r"items\[0\] is a NoneType"),
        (["?!"], "no words"),
    ],
)
def test_bad_items_are_named(items: Any, message: str) -> None:
    with pytest.raises(el.EverylabelError, match=message):
        el.embed(items, "tfidf")


def test_bad_options_are_named(tmp_path: Path) -> None:
    with pytest.raises(el.EverylabelError, match="dtype is 'int8'"):
        el.embed(TEXTS, "tfidf", dtype="int8")
    with pytest.raises(el.EverylabelError, match="kind is 'sound'"):
        el.embed(TEXTS, "tfidf", kind="sound")
    with pytest.raises(el.EverylabelError, match=r"ends in \.npy"):
        el.embed(TEXTS, "tfidf", out=tmp_path / "x.txt")
    with pytest.raises(el.EverylabelError, match="batch_size is 0"):
        el.embed(TEXTS, "tfidf", batch_size=0)


WORDS = ("lost", "late", "stolen", "found", "sent", "owed", "paid", "blue", "cheap", "old")
LONG = [f"{a} {b} of {c} number{i}" for i in range(6) for a in WORDS for b in WORDS for c in ("card", "loan")]


@pytest.mark.parametrize("texts", [TEXTS, LONG])  # without and with the SVD
def test_new_texts_are_embedded_by_the_fitted_encoder(texts: list[str], tmp_path: Path) -> None:
    features = el.embed(texts, "tfidf", fit_out=tmp_path / "fit.npz", cache=False)
    again = el.embed(texts[5:9], "tfidf", fit=tmp_path / "fit.npz", cache=False)
    np.testing.assert_allclose(again, features[5:9], atol=1e-7)
    np.testing.assert_allclose(el.embed(texts[5:9], fit=tmp_path / "fit.npz"), features[5:9], atol=1e-7)
    anew = el.embed(texts[5:9], "tfidf")  # learned from four texts: other columns
    assert anew.shape != features[5:9].shape
    with np.load(tmp_path / "fit.npz", allow_pickle=False) as file:
        assert {"header", "idf", "terms"} <= set(file.files)


def test_fit_of_another_model_or_kind_is_refused(tmp_path: Path) -> None:
    el.embed(TEXTS, "tfidf", fit_out=tmp_path / "fit.npz")
    with pytest.raises(el.EverylabelError, match=r"none.npz' does not exist; expected embedder.npz"):
        el.embed(TEXTS, fit=tmp_path / "none.npz")
    with pytest.raises(el.EverylabelError, match=r"is of tfidf .* got kind 'text' and model 'bert'"):
        el.embed(TEXTS, "bert", fit=tmp_path / "fit.npz")
    with pytest.raises(el.EverylabelError, match="is of tfidf for items of kind 'text'; got kind 'image'"):
        el.embed([Path("a.png")], fit=tmp_path / "fit.npz")
    (tmp_path / "bad.npz").write_bytes((tmp_path / "fit.npz").read_bytes()[:200])
    with pytest.raises(el.EverylabelError, match=r"bad.npz' cannot be read"):
        el.embed(TEXTS, fit=tmp_path / "bad.npz")


def test_a_model_that_learns_nothing_leaves_no_fit(counting: Counting, tmp_path: Path) -> None:
    (tmp_path / "fit.npz").write_text("of another model")
    el.embed(TEXTS, fit_out=tmp_path / "fit.npz")
    assert not (tmp_path / "fit.npz").exists()
