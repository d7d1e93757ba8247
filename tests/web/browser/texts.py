"""A project of texts that are hard to show."""

import csv
from pathlib import Path

MARKUP = '<script>window.hacked = true</script><b>bold</b> & <img src=x onerror="window.hacked = true">'
ARABIC = "هذا نص عربي من اليمين إلى اليسار، ويجب أن يظهر كذلك."
LONG = "needle " + "a very long text that must not push anything out of the page " * 400
UNBROKEN = "unbroken" * 500
LONG_NAME = "a class whose name is far too long for any button that a sensible person would ever want to draw"
JOINED_NAME = "balance_not_updated_after_cheque_or_cash_deposit"
CLASSES = [f"topic {i:02d}" for i in range(23)] + [JOINED_NAME, LONG_NAME]


def write_texts(folder: Path) -> list[str]:
    """Write the texts and return the arguments that open them."""
    ordinary = [f"message {i} about topic {i % 24:02d}, word{i % 24}" for i in range(120)]
    with (folder / "texts.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["body", "sender", "date"])
        texts = [MARKUP, ARABIC, LONG, UNBROKEN, *ordinary]
        rows.writerows([text, f"sender {i}", "2024-05-01"] for i, text in enumerate(texts))
    return ["texts.csv", "--text-column", "body", "--classes", ",".join(CLASSES), "--model", "tfidf"]
