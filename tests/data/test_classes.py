"""Class names follow one rule in files, options and on the page."""

import numpy as np
import pytest

from everylabel.core.errors import EverylabelError
from everylabel.data.classes import check_class_count, check_classes, clean_name, label_numbers, meant


def test_a_name_is_cleaned_or_refused() -> None:
    assert clean_name(" two \t words\n") == "two words"
    assert clean_name("x" * 200) == "x" * 200
    for joined in (
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\U0001f468\u200d\U0001f467",
    ):  # Persian, a family
        assert clean_name(joined) == joined
    for bad in ("", "  ", "x" * 201, "a\0b", "a\u200bb", "\u200d"):
        with pytest.raises(EverylabelError, match="1 to 200 printable characters: check --label-column"):
            clean_name(bad)
    with pytest.raises(EverylabelError, match=r"printable characters$"):
        clean_name("", hint="")


def test_there_are_not_too_many() -> None:
    names = [str(i) for i in range(1001)]
    check_class_count(names[:1000])
    with pytest.raises(EverylabelError, match="'2' and others, 1,001 or more; expected 1,000 at most"):
        check_class_count(names)


def test_labels_become_numbers() -> None:
    notes: list[str] = []
    labels, classes = label_numbers(["b", " a", None, 1.0, np.nan], None, notes)
    assert (labels.tolist(), classes) == ([2, 1, -1, 0, -1], ("1", "a", "b"))
    assert notes == ["1 label(s) had white space around them, which was removed"]
    with pytest.raises(EverylabelError, match="labels hold 'b'; expected classes a"):
        label_numbers(["a", "b"], ("a",), [])
    assert check_classes(None) is None
    assert check_classes([" a", "b"]) == ("a", "b")


def test_names_that_differ_by_their_numbers_are_not_taken_for_misspelt() -> None:
    assert meant(["level 2"], ["level 1"]) == ""
    assert "'late' in place of 'lat'" in meant(["lat"], ["late", "early"])


def test_hint_on_similar_class_names_is_limited() -> None:
    words = [f"{one}{other}{third}" for one in "abcdefgh" for other in "klmnopqr" for third in "stuvw"]
    told = meant([word + "ing" for word in words], [word + "ings" for word in words])
    assert told.count("in place of") == 5
    assert "and 7 more" in told
