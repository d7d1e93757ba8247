"""Tasks as a source: texts, HTML, images; what comes and goes."""

import base64
import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from everylabel.label_studio.api import Api
from everylabel.label_studio.configuration import read_configuration
from everylabel.label_studio.tasks import Tasks, plain_text
from tests.label_studio.running import running
from tests.label_studio.stand_in import TOKEN, LabelStudio

OVER = """<View><{0} name="text" value="${1}"/>
<Choices name="kind" toName="text"><Choice value="a"/><Choice value="b"/></Choices></View>"""


def tasks_of(studio: LabelStudio, folder: Path) -> Tasks:
    return Tasks(
        Api(studio.url, TOKEN), folder / "tasks.jsonl", read_configuration(studio.project["label_config"])
    )


def rows(tasks: Tasks) -> list[dict[str, str]]:
    return [json.loads(line) for line in tasks.path.read_text(encoding="utf-8").splitlines()]


def test_table_keeps_deleted_tasks(studio: LabelStudio, tmp_path: Path) -> None:
    tasks = tasks_of(studio, tmp_path)
    first = tasks.take(studio.tasks.values())
    assert len(rows(tasks)) == len(first) == 60
    gone, *_ = studio.tasks
    studio.delete_tasks(gone)
    new = studio.add_tasks([{"text": "größe\u2028大きさ\nzwei \ud83d"}])[0]
    again = tasks_of(studio, tmp_path)
    assert again.names == first
    there = again.take(studio.tasks.values())
    assert there == first - {str(gone)} | {str(new)}
    assert [row["id"] for row in rows(again)] == [*sorted(first), str(new)]
    assert again.take([]) == set()
    assert len(again.names) == 61


def test_tasks_are_read_page_by_page(studio: LabelStudio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("everylabel.label_studio.api.PAGE", 7)
    api = Api(studio.url, TOKEN)
    assert [task["id"] for task in api.tasks(studio.number)] == list(studio.tasks)
    assert [task["id"] for task in api.tasks(studio.number, 150)] == list(range(151, 161))
    assert len(studio.requests) == 9 + 2


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>One</p><p>two&amp;three</p>", "One two&three"),
        ("a<b>b</b>c<br>d", "abc d"),
        ("<style>x{}</style><script>1<2</script><div>shown</div></div>", "shown"),
        ("no tags, 1 < 2", "no tags, 1 < 2"),
        ("<p>größe 大きさ&nbsp;😀", "größe 大きさ 😀"),
    ],
)
def test_html_is_reduced_to_its_visible_text(html: str, text: str) -> None:
    assert plain_text(html) == text


def test_hypertext_is_learned_by_its_text(tmp_path: Path) -> None:
    texts = [f"<p>a {'sweet' if i % 2 else 'fast'} <b>thing</b> {i}</p>" for i in range(20)]
    studio = LabelStudio([], OVER.format("HyperText", "body"))
    studio.add_tasks([{"body": text} for text in texts])
    with running(studio, tmp_path) as made:
        assert made.project.shown.item(str(min(studio.tasks)))["text"] == "a fast thing 0"
        studio.annotate(min(studio.tasks), "a")
        assert made.labels() == {str(min(studio.tasks)): "a"}
    studio.close()


def picture(colour: tuple[int, int, int], shade: int) -> bytes:
    pixels = np.full((16, 16, 3), colour, np.uint8) // (1 + shade % 3)
    pixels[shade % 16] = 255
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def test_images_are_fetched_with_the_token_and_learned(tmp_path: Path) -> None:
    studio = LabelStudio([], OVER.format("Image", "picture"))
    data = []
    for i in range(24):
        content = picture((200, 30, 30) if i % 2 else (30, 30, 200), i)
        place = f"/data/upload/7/an image {i}.png"
        studio.files[place.replace(" ", "%20")] = content
        inline = "data:image/png;base64," + base64.b64encode(content).decode()
        data.append({"picture": [place, studio.url + place, inline][i % 3]})
    data.append({"picture": "/data/upload/7/gone.png"})
    data.append({"picture": "s3://bucket/x.png"})
    numbers = studio.add_tasks(data)
    with running(studio, tmp_path, model="pixels") as made:
        assert len(made.project.service.state.ids) == 24
        for i in range(8):
            studio.annotate(numbers[i], "b" if i % 2 else "a")
        asked = [{"id": number} for number in numbers]
        results = made.post("/predict", {"tasks": asked, "project": "7.1"})[1]["results"]
        told = [each["result"][0]["value"]["choices"][0] for each in results[8:24]]
        assert told == ["b" if i % 2 else "a" for i in range(8, 24)]
        assert results[24]["result"] == results[25]["result"] == []
        assert made.project.shown.picture(str(numbers[0]))
    studio.close()


def test_task_with_a_new_image_gets_a_new_file(studio: LabelStudio, tmp_path: Path) -> None:
    xml = '<View><Image name="i" value="$image"/><Choices name="c" toName="i"><Choice value="a"/></Choices>'
    api, shown = Api(studio.url, TOKEN), []
    for colour in ("red", "blue"):
        file = io.BytesIO()
        Image.new("RGB", (4, 4), colour).save(file, "PNG")
        address = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
        tasks = Tasks(api, tmp_path / "tasks.jsonl", read_configuration(f"{xml}</View>", None))  # a new start
        tasks.take([{"id": 1, "data": {"image": address}}])
        (row,) = map(json.loads, (tmp_path / "tasks.jsonl").read_text().splitlines())
        shown.append(Image.open(tmp_path / row["image"]).getpixel((0, 0)))
    assert shown == [(255, 0, 0), (0, 0, 255)]
