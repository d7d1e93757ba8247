"""All formats of exports, for commands, API and page."""

from typing import NamedTuple


class Format(NamedTuple):
    """The title, file ending and media type of a format."""

    title: str
    ending: str
    media: str = "application/octet-stream"


TABLES = {
    "csv": Format("CSV", ".csv", "text/csv; charset=utf-8"),
    "jsonl": Format("JSONL", ".jsonl", "application/x-ndjson"),
    "parquet": Format("Parquet", ".parquet", "application/vnd.apache.parquet"),
}
LABEL_STUDIO, ARGILLA = "labelstudio", "argilla"
PROGRAMS = {  # for answers only
    LABEL_STUDIO: Format("Label Studio", ".json", "application/json"),
    ARGILLA: Format("Argilla", ".json", "application/json"),
}
MODELS = {
    "everylabel": Format("everylabel", ".npz"),
    "skops": Format("scikit-learn (skops)", ".skops"),
    "onnx": Format("ONNX", ".onnx"),
    "torch": Format("PyTorch", ".pt"),
    "sklearn": Format("scikit-learn without everylabel (skops)", ".skops"),
}
MLFLOW, ENCODER = "mlflow", "sentence-transformers"  # folders: only the command writes them
