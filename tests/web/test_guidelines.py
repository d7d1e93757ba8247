"""Guidelines in Markdown: useful elements are shown, harmful ones removed."""

from pathlib import Path

import pytest

from everylabel.core.errors import EverylabelError
from everylabel.web.item_view import keep_guidelines, read_guidelines, rendered


def test_page_has_what_a_labeller_needs() -> None:
    shown = rendered(
        "# Rules\n\n* *late* is **not** lost\n\n|a|b|\n|-|-|\n|1|2|\n\n[more](https://example.org)"
    )
    for part in ("<h1>Rules</h1>", "<em>late</em>", "<td>1</td>", '<a href="https://example.org">more</a>'):
        assert part in shown


@pytest.mark.parametrize(
    "harm",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "![seen](https://example.org/pixel.png)",
        "[go](javascript:alert(1))",
        "[go](JavaScript&#58;alert(1))",
        "[go](data:text/html,hello)",
        "[go](/api/undo)",
        "<https://example.org/><svg onload=alert(1)>",
    ],
)
def test_rendered_guidelines_run_and_fetch_nothing(harm: str) -> None:
    shown = rendered(harm)
    assert "<script" not in shown
    assert "<img" not in shown
    assert "<svg" not in shown
    assert 'href="j' not in shown.lower()
    assert 'href="data' not in shown
    assert 'href="/' not in shown


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    with pytest.raises(EverylabelError, match=r"--guidelines .*gone\.md.* cannot be read"):
        read_guidelines(tmp_path, tmp_path / "gone.md")
    (tmp_path / "odd.md").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(EverylabelError, match="expected a Markdown file in UTF-8"):
        read_guidelines(tmp_path, tmp_path / "odd.md")


def test_a_project_shows_them_again(tmp_path: Path) -> None:
    folder, guide = tmp_path / "p", tmp_path / "guide.md"
    folder.mkdir()
    guide.write_text("*late* is not lost")
    assert read_guidelines(folder) == ""
    now = read_guidelines(folder, guide)
    assert now == "*late* is not lost"
    assert read_guidelines(folder) == ""  # not before all is checked
    keep_guidelines(folder, now)
    guide.unlink()
    assert read_guidelines(folder) == "*late* is not lost"
    none = read_guidelines(folder, Path("none"))
    assert none == ""
    keep_guidelines(folder, none)
    assert read_guidelines(folder) == ""


def test_a_link_in_a_project_shows_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("my key")
    (tmp_path / "guidelines.md").symlink_to(tmp_path / "secret.txt")
    assert read_guidelines(tmp_path) == ""
