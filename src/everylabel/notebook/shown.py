"""How a session is shown: the page in a frame inside a notebook, its address elsewhere."""

import sys
from html import escape
from importlib import import_module
from typing import Any

HEIGHT = 680  # pixels of the frame


def shell() -> Any:
    """Return the notebook's shell, which can show HTML; None in plain Python and in a terminal."""
    found = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return found if hasattr(found, "kernel") else None


def frame(address: str, height: int) -> str:
    """Return HTML that has the page in a frame, and a link to it."""
    place = escape(address)
    style = "border: 1px solid rgba(128, 128, 128, .4); border-radius: 6px; background: white"
    return (
        f'<iframe src="{place}" title="everylabel" width="100%" height="{height}" style="{style}" '
        f'allow="clipboard-write"></iframe><div>{link(address)}</div>'
    )


def link(address: str) -> str:
    """Return HTML that leads to the page in a tab of its own."""
    place = escape(address)
    return f'<a href="{place}" target="_blank" rel="noopener">{place}</a>'


def show(session: Any) -> None:
    """Have a notebook show a session; elsewhere print where it is."""
    if shell() is None:
        print(f"everylabel is ready: {session.address}", flush=True)
    else:
        import_module("IPython.display").display(session)
