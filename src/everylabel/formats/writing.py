"""What leaves a project: labels, answers and predictions as tables, the model in others' formats."""

from everylabel.formats.label_studio_tasks import label_studio_tasks
from everylabel.formats.model import MODEL_FORMATS, export_model
from everylabel.formats.records import (
    Given,
    Records,
    answer_records,
    label_records,
    prediction_records,
)
from everylabel.formats.tables import TABLE_FORMATS, write_table

__all__ = [
    "MODEL_FORMATS",
    "TABLE_FORMATS",
    "Given",
    "Records",
    "answer_records",
    "export_model",
    "label_records",
    "label_studio_tasks",
    "prediction_records",
    "write_table",
]
