"""All pages of reference, as they should be."""

from website.reference import api, command_line, http

INDEX = """# Reference

Written from the code by `make reference`; a test compares the two. Besides the Python below:
[the command line](command-line.md) and [the HTTP API](http.md).

## Python

`import everylabel as el` loads nothing until it is asked for. State is a value: functions return another
posterior and leave the one they are given alone. Arrays may be NumPy's or torch's; the same kind comes back.
"""


def pages() -> dict[str, str]:
    """Return every page of docs/reference by its file name."""
    return {
        "index.md": f"{INDEX}{api.overview()}\n",
        **api.pages(),
        "command-line.md": command_line.page(),
        "http.md": http.page(),
    }
