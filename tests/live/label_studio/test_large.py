"""100,000 tasks in Label Studio: every webhook is answered, and how fast."""

import itertools
import os
import time
from pathlib import Path

from tests.live.label_studio.backend import Backend
from tests.live.label_studio.figures import Figures, milliseconds
from tests.live.label_studio.messages import Messages
from tests.live.label_studio.proxy import Proxy
from tests.live.label_studio.studio import Project, Studio
from tests.projects.postgres import free_port

TASKS = int(os.environ.get("EVERYLABEL_LABEL_STUDIO_TASKS", "100000"))
AT_ONCE = 5000  # tasks of one import
ANNOTATED = 100


def test_webhooks_beside_a_large_pool(
    studio: Studio, messages: Messages, figures: Figures, tmp_path: Path
) -> None:
    pairs = itertools.islice(itertools.product(messages.truth, messages.texts), TASKS)
    truth = {f"{first} {second}": messages.truth[first] for first, second in pairs}
    texts, began = list(truth), time.monotonic()
    project = Project.create(studio, "a large pool", messages.config, texts[:AT_ONCE])
    for start in range(AT_ONCE, len(texts), AT_ONCE):
        project.add(texts[start : start + AT_ONCE])
    imported = time.monotonic() - began
    port = free_port()
    proxy = Proxy(port)
    backend = Backend(project, tmp_path, port, "--model", "tfidf", "--address", proxy.url)
    try:
        backend.start()
        answered = []
        for _ in range(ANNOTATED):
            task = project.next_task()
            began = time.monotonic()
            project.annotate(task["id"], truth[task["data"]["text"]])
            answered.append(time.monotonic() - began)
        figures[f"Beside {len(texts):,} tasks"] = {
            "imported into Label Studio, seconds": round(imported, 1),
            "backend read and embedded them, seconds": round(backend.starts[0], 1),
            **milliseconds(proxy.webhooks(), "webhook answered"),
            **milliseconds(answered, "annotation submitted to Label Studio, webhook included"),
        }
    finally:
        backend.stop()
        proxy.close()
    assert len(proxy.webhooks()) == ANNOTATED  # how fast is reported: no test depends on the machine
