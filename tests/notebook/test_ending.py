"""Sessions start, continue and end: on other threads, with nothing to predict."""

import threading
from typing import Any

import numpy as np
import pytest

import everylabel as el
from everylabel.notebook import session as sessions
from everylabel.web.server import Server
from tests.notebook.people import TEXTS, answer_texts


def test_series_keeps_its_index_and_closes_on_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas", reason="needs the extra everylabel[table]")
    texts = ["", *TEXTS]
    given = pandas.Series(texts, index=[f"row {i}" for i in range(len(texts))][::-1], name="body")
    session = el.label(given, "card,transfer", model="tfidf", display=False)
    answer_texts(session, 6)
    assert session.classes == ["card", "transfer"]
    assert _looks_while_waiting(session, monkeypatch) == 0
    frame = session.to_frame()
    assert frame.body.equals(given)
    assert {texts[each["row"]]: each["label"] for each in session.records} == (
        frame.dropna().set_index("body").label.to_dict()
    )
    assert session.predict(["", None]).tolist() == [None, None]
    assert session.predict(pandas.DataFrame({"body": [" ", None]})).tolist() == [None, None]
    assert session.predict([]).shape == (0,)
    assert session.predict_proba([]).shape == (0, 2)
    assert _models_of_one_prediction(session, monkeypatch) == 1
    errors: list[BaseException] = []

    def stop() -> None:
        try:
            session.stop()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=stop)
    thread.start()
    thread.join()
    assert (errors, session.running) == ([], False)
    assert session.wait(labels=100) is session


def _looks_while_waiting(session: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how often the full state was computed while `wait` counted labels."""
    looks = []
    with monkeypatch.context() as counted:
        counted.setattr(sessions, "state_of", lambda opened: looks.append(opened))
        session.wait(labels=6)
    return len(looks)


def _models_of_one_prediction(session: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many models are asked for by one call of `predict`, each of which may be another."""
    model, asked = session.model, []

    def ask(self: sessions.Session) -> Any:
        asked.append(self)
        return model

    with monkeypatch.context() as counted:
        counted.setattr(sessions.Session, "model", property(ask))
        assert set(session.predict(TEXTS[:2])) <= {"card", "transfer"}
    return len(asked)


def test_failed_close_leaves_no_folder() -> None:
    session = el.label(TEXTS, ["card", "transfer"], model="tfidf", display=False)

    def fail() -> None:
        raise OSError("no more")

    session._background._stack.callback(fail)
    with pytest.raises(OSError, match="no more"):
        session.stop()
    assert not session.running


def test_server_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    async def startup(self: Server, sockets: Any = None) -> None:
        raise RuntimeError("no loop")

    monkeypatch.setattr(Server, "startup", startup)
    with pytest.raises(el.EverylabelError, match=r"did not start: RuntimeError\('no loop'\)") as told:
        el.label(np.eye(6), ["a", "b"], display=False)
    assert isinstance(told.value.__cause__, RuntimeError)
