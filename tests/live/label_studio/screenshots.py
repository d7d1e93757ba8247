"""Take the pictures of docs/label-studio.md from a real Label Studio: `make screenshots-label-studio`."""

import os
import sys
import tempfile
from pathlib import Path

from tests.live.label_studio.conftest import WHERE
from tests.live.label_studio.messages import made_up
from tests.live.label_studio.stream import Stream, open_browser
from tests.live.label_studio.studio import Studio
from tests.live.label_studio.team import Team, team
from tests.projects.postgres import free_port
from tests.web.browser.screenshots import save

LABELS = 24
SHOWN = ("id", "total_annotations", "predictions_score", "predictions_results", "predictions_model_versions")


def sorted_tab(people: Team) -> int:
    """Make a tab of the Data Manager that has the most wanted tasks first and return its number."""
    project = people.project.number
    columns = people.studio.ask("GET", f"/api/dm/columns?project={project}")["columns"]
    names = [f"{one.get('target', 'tasks')}:{one['id']}" for one in columns if not one.get("children")]
    hidden = [name for name in names if name.split(":")[1] not in SHOWN]
    data = {
        "title": "Most wanted first",
        "ordering": ["tasks:predictions_score"],
        "hiddenColumns": {"explore": hidden, "labeling": hidden},
        "columnsWidth": {"tasks:data.text": 460},
        "filters": {
            "conjunction": "and",
            "items": [
                {
                    "filter": "filter:tasks:total_annotations",
                    "operator": "equal",
                    "value": 0,
                    "type": "Number",
                }
            ],
        },
    }
    return int(people.studio.ask("POST", "/api/dm/views/", {"project": project, "data": data})["id"])


def shoot(people: Team, stream: Stream) -> None:
    project = people.project.number
    stream.size(1180, 600)
    stream.sign_in()
    stream.begin(project)
    stream.until(lambda: stream.filled_in)
    save(stream, "studio-stream", 1.0)
    stream.driver.get(f"{stream.url}/projects/{project}/data?tab={sorted_tab(people)}")
    stream.until(
        lambda: len(stream.all('[class*="table__row"], .dm-table__row, [class*="dm-table-row"]')) > 5
    )
    save(stream, "studio-order", 1.0)
    stream.driver.get(f"{stream.url}/projects/{project}/settings/ml")
    stream.until(lambda: "Connected" in stream.text("body"))
    save(stream, "studio-model", 1.0)


def main() -> int:
    """Take all pictures."""
    messages = made_up(108)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        studio = Studio(Path(os.environ[WHERE]).absolute(), folder / "studio", free_port()).start()
        driver = open_browser()
        try:
            with team(studio, messages, folder, "Messages to a shop") as people:
                for _ in range(LABELS):
                    people.annotate()
                people.follows()
                shoot(people, Stream(driver, studio))
        finally:
            driver.quit()
            studio.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
