"""All pages of docs/reference."""

from website.reference import api, command_line, http

INDEX = """# Reference

`make reference` writes these pages from the code. See also [the command line](command-line.md) and [the HTTP
API](http.md).

## Python

After `import everylabel as el`, modules are loaded on first use. Functions return a new posterior and do not
change the given one. Arrays may be NumPy arrays or torch tensors; results are of the same kind.
"""


def pages() -> dict[str, str]:
    """Return the text of every page of docs/reference by file name."""
    return {
        "index.md": f"{INDEX}{api.overview()}\n",
        **api.pages(),
        "command-line.md": command_line.page(),
        "http.md": http.page(),
    }
