"""Where things are on the server."""

from urllib.parse import quote


def image_url(item: str, digest: str) -> str:
    """Return where an instance's image is: another content, another address, whatever it is called."""
    return f"/api/image/{quote(item, safe='')}?content={digest}"
