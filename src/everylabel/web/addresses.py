"""Where things are on the server."""

from urllib.parse import quote


def image_url(item: str) -> str:
    """Return where an instance's image is."""
    return f"/api/image/{quote(item, safe='')}"
