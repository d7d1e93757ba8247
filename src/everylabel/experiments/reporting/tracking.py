"""Results as MLflow runs, for those who keep theirs there: one run an experiment, dataset, training, variant.

MLflow's own settings tell where to (MLFLOW_TRACKING_URI). Each metric has the mean over repetitions at
each x as its step, and its standard error beside it. Logging again replaces what was logged before.
"""

import re
import time
from collections import defaultdict
from typing import Any

from everylabel.core.errors import EverylabelError, need
from everylabel.experiments.reporting.summary import EXPERIMENTS, curves, rows_of
from everylabel.experiments.results import Results, Row

EXPERIMENT = "everylabel reproduce"


def need_mlflow() -> Any:
    """Return the mlflow module, or say what to install."""
    return need("mlflow", "mlflow", "logging to MLflow")


def log_to_mlflow(results: Results, training: str) -> int:
    """Write all results of a way of training to MLflow; return the number of runs."""
    mlflow = need_mlflow()
    groups: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for name in EXPERIMENTS:
        for row in rows_of(results, name, training):
            groups[name, row.dataset, row.variant].append(row)
    try:
        client = mlflow.MlflowClient()
        found = client.get_experiment_by_name(EXPERIMENT)
        home = client.create_experiment(EXPERIMENT) if found is None else found.experiment_id
        before = {run.data.tags.get("everylabel.key"): run.info.run_id for run in _runs(client, home)}
        for (experiment, dataset, variant), rows in groups.items():
            key = f"{experiment}/{dataset}/{training}/{variant}"
            if key in before:
                client.delete_run(before[key])
            run = client.create_run(home, run_name=key, tags={"everylabel.key": key}).info.run_id
            metrics = [mlflow.entities.Metric(*metric) for metric in _metrics(rows, dataset, variant)]
            facts = {"experiment": experiment, "dataset": dataset, "training": training, "variant": variant}
            facts["repetitions"] = str(len({row.repetition for row in rows}))
            params = [mlflow.entities.Param(*fact) for fact in facts.items()]
            client.log_batch(run, metrics=metrics, params=params)
            client.set_terminated(run)
    except mlflow.exceptions.MlflowException as error:
        raise EverylabelError(
            f"MLflow refused ({error}); set MLFLOW_TRACKING_URI to a server or store it can write to. "
            f"The measurements are safe in {str(results.path)!r}"
        ) from error
    return len(groups)


def _runs(client: Any, home: str) -> list[Any]:
    runs: list[Any] = []
    token = None
    while True:
        page = client.search_runs([home], max_results=1000, page_token=token)
        runs += page
        token = page.token
        if not token:
            return runs


def _metrics(rows: list[Row], dataset: str, variant: str) -> list[tuple[str, float, int, int]]:
    """Return name, value, time and step of every mean and standard error."""
    now = int(1000 * time.time())
    found = []
    for metric in dict.fromkeys(row.metric for row in rows):
        name = re.sub(r"[^\w\-. /]", "", metric)
        for x, at in curves(rows, metric, dataset)[variant].items():
            found.append((name, at.mean, now, int(x)))
            if at.n > 1:
                found.append((f"{name}, standard error".replace(",", ""), at.error, now, int(x)))
    return found
