"""`--classes`: valid lists and files; one-line errors for others."""

import re
from pathlib import Path

import pytest

import everylabel
from everylabel.core.errors import EverylabelError
from everylabel.data.classes import KEYS, ClassList, class_list


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (None, None),
        ("billing, refund,", ["billing", "refund"]),
        ('"billing, late",refund', ["billing, late", "refund"]),
        ('refund, "billing, late"', ["refund", "billing, late"]),
        ('5" pipe,refund\n', ['5" pipe', "refund"]),
    ],
)
def test_names_are_separated_by_commas_outside_of_quotes(given: str | None, names: list[str] | None) -> None:
    assert class_list(given) == (names, {}, {})


def test_a_file_is_read_in_its_encoding(tmp_path: Path) -> None:
    path = tmp_path / "classes.CSV"
    told = ClassList(["café", "refund"], {"café": "coffee, cakes"}, {})
    text = 'name,description\ncafé,"coffee, cakes"\nrefund,\n,nobody\n'
    for encoding in (None, "utf-8", "utf-8-sig"):
        path.write_text("\ufeff" + text, "utf-8")
        assert class_list(str(path), encoding) == told
    for encoding in ("latin-1", "utf-16"):
        path.write_text(text, encoding)
        assert class_list(str(path), encoding) == told
        with pytest.raises(EverylabelError, match=r"cannot be read as 'utf-8' .* --encoding latin-1"):
            class_list(str(path))
    with pytest.raises(EverylabelError, match="cannot be read as 'klingon'"):
        class_list(str(path), "klingon")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has no rows; expected columns `name`"),
        ("title,text\na,b,c\n", "has title, text; expected columns `name`"),
        ('name\n"billing\n', "cannot be read .* in double quotes"),
        ("name,description\na,first\nb,\n a ,second\n", "names a more than once"),
        ("name,key\na,1\nb,1\n", "has key 1 more than once; expected each once"),
        ("name,key\na,S\nb,12\n", "has key s, 12; expected one of 0 1 .* the page needs the other letters"),
    ],
)
def test_a_file_that_is_no_list_of_classes_is_reported(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "classes.csv"
    path.write_text(text)
    with pytest.raises(EverylabelError, match=told):
        class_list(str(path))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("a,b, a", "names a more than once; expected each once"),
        ('"billing, late', "cannot be read .* in double quotes"),
        ("nowhere.csv", "does not exist; expected a CSV file"),
    ],
)
def test_names_that_are_no_list_are_reported(given: str, told: str) -> None:
    with pytest.raises(EverylabelError, match=told):
        class_list(given)


def test_comma_outside_quotes_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "classes.csv"
    path.write_text("name,description\na,first, of all\nb,second,,\n")
    with pytest.raises(EverylabelError, match="rows with more cells than the header's 2: 'a'; put a name"):
        class_list(str(path))
    path.write_text("name,description\na,first,,\nb,second\n")
    assert class_list(str(path)) == (["a", "b"], {"a": "first", "b": "second"}, {})


def test_a_file_may_name_keys_that_the_page_leaves_free(tmp_path: Path) -> None:
    path = tmp_path / "classes.csv"
    path.write_text("key,name\nB,billing\n,other\n7,refund\n")
    assert class_list(str(path)) == (["billing", "other", "refund"], {}, {"billing": "b", "refund": "7"})
    page = Path(everylabel.__file__).parent / "web" / "page" / "keys.js"
    shortcuts = {
        key for keys in re.findall(r"keys: \[(.*?)\]", page.read_text()) for key in re.findall('"(.)"', keys)
    }
    assert len(shortcuts) > 10
    assert set(KEYS) == set("0123456789abcdefghijklmnopqrstuvwxyz") - shortcuts
