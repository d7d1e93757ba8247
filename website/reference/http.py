"""The reference of the HTTP API, from /openapi.json of a running server."""

import json
import subprocess
import sys
import tempfile
from typing import Any
from urllib.request import urlopen

METHODS = ("get", "post", "patch", "put", "delete")


def description() -> dict[str, Any]:
    """Return /openapi.json of a server of digits."""
    command = [sys.executable, "-m", "everylabel.cli", "label", "digits", "--port", "0", "--no-browser"]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            [*command, "--project", folder], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as server,
    ):
        try:
            assert server.stdout is not None
            address = next(line for line in server.stdout if "everylabel is ready" in line).split()[-1]
            with urlopen(address.rstrip("/") + "/openapi.json") as reply:
                return json.load(reply)
        finally:
            server.terminate()


def page() -> str:
    """Return the page of all requests."""
    api = description()
    parts = [
        "# HTTP",
        "All requests of the labelling server, as in its `/openapi.json`. [Use the HTTP "
        "API](../how-to/http-api.md) shows the usual tasks, and explains keys, tokens and errors.",
    ]
    operations = [
        (f"{method.upper()} {path}", methods[method])
        for path, methods in sorted(api["paths"].items())
        for method in METHODS
        if method in methods
    ]
    errors = [
        f"`{code}` {_flat(reply['description'])}"
        for code, reply in operations[0][1]["responses"].items()
        if code != "200"
    ]
    parts.append(f"A request that is not met gets one of these replies: {'; '.join(errors)}.")
    for name, what in operations:
        parts += _request(name, what, api)
    return "\n\n".join(parts) + "\n"


def _request(name: str, what: dict[str, Any], api: dict[str, Any]) -> list[str]:
    parts = [f"## {name}".replace("{", "\\{"), _flat(what.get("description") or what.get("summary", ""))]
    rows = [
        (one["name"], one["in"], one["schema"], one.get("required", False), one.get("description", ""))
        for one in what.get("parameters", [])
    ]
    body = what.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body:
        schema = _looked_up(body, api)
        needed = schema.get("required", [])
        for key, field in schema.get("properties", {}).items():
            rows.append((key, "body", field, key in needed, field.get("description", "")))
    if rows:
        lines = ["| field | in | what it takes | |", "|---|---|---|---|"]
        for key, place, schema, must, about in rows:
            note = " ".join(filter(None, ["needed" if must else _default(schema), _flat(about)]))
            lines.append(f"| `{key}` | {place} | {_kind(schema, api)} | {note} |")
        parts.append("\n".join(lines))
    return [part for part in parts if part]


def _looked_up(schema: dict[str, Any], api: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return api["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def _kind(schema: dict[str, Any], api: dict[str, Any]) -> str:
    schema = _looked_up(schema, api)
    if "anyOf" in schema:
        return " or ".join(_kind(one, api) for one in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = schema.get("type", "anything")
    if kind == "array":
        kind = f"list of {_kind(schema.get('items', {}), api)}"
    if kind == "object" and "properties" in schema:
        kind = "{" + ", ".join(f"{key}: {_kind(one, api)}" for key, one in schema["properties"].items()) + "}"
    return kind + _bounds(schema)


def _bounds(schema: dict[str, Any]) -> str:
    names = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}
    names |= {"maxLength": "of at most", "maxItems": "of at most"}
    found = [f"{word} {schema[key]:,}" for key, word in names.items() if key in schema]
    return f" {' '.join(found)}" if found else ""


def _default(schema: dict[str, Any]) -> str:
    value = schema.get("default")
    return "" if value is None or value == [] else f"`{json.dumps(value)}` unless given"


def _flat(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
