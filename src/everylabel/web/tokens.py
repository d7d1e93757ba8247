"""Access tokens: one to label, one read-only; addresses that send too many wrong tokens are locked out.

Tokens in a file can be changed while the server runs: they apply from the next request on.
"""

import hmac
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from math import ceil
from pathlib import Path
from typing import Any

from everylabel.core.errors import EverylabelError

SHORTEST = 20  # characters; a shorter token could be guessed
LARGEST_FILE = 10_000  # bytes of a token file
WRONG, LOCKED = 20, 60.0  # wrong tokens before an address is locked out, and for how many seconds
REMEMBERED = 10_000  # maximal number of addresses
log = logging.getLogger(__name__)


def new_token() -> str:
    """Return a token of 192 random bits."""
    return secrets.token_urlsafe(24)


def check_token(token: str, name: str = "--token") -> str:
    """Return the user's own token; refuse one that is easy to guess or that some programs cannot send."""
    plain = token.isascii() and token.isprintable() and " " not in token
    if len(token) < SHORTEST or not plain:
        raise EverylabelError(
            f"{name} has {len(token)} characters; expected at least {SHORTEST}, without "
            f"spaces and accents, such as {new_token()}; if you leave it out, one is generated"
        )
    return token


@dataclass
class Tokens:
    """The token for labelling and the read-only token."""

    labels: str
    looks: str | None = None
    file: Path | None = None
    _seen: object = field(default=None, repr=False)
    _wrong: str = field(default="", repr=False)

    def may(self, given: str) -> str | None:
        """Return the right that a token gives, "label" or "look", or None; compared in constant time."""
        self._renew()
        found = [
            what for what, token in (("label", self.labels), ("look", self.looks)) if _same(given, token)
        ]
        return found[0] if found else None

    def _renew(self) -> None:
        """Read the file again if it has changed; an invalid file changes nothing."""
        if self.file is None:
            return
        try:
            now = self.file.stat()
            seen = now.st_mtime_ns, now.st_size, now.st_ino
            if seen != self._seen:
                self._seen = seen
                self.labels, self.looks = _read(self.file)
                self._wrong = ""
        except (OSError, EverylabelError) as error:
            if str(error) != self._wrong:  # runs on each request: log the same problem once
                self._wrong = str(error)
                log.warning("the tokens stay as they were: %s", error)


def tokens_of(token: str | None, look: str | None, file: Path | None, local: bool) -> Tokens | None:
    """Return the tokens that a server requires; None for a local server without tokens."""
    if file is not None:
        if token is not None or look is not None:
            raise EverylabelError("--token-file was given with a token; expected one of them")
        labels, looks = _read(file)
        return Tokens(labels, looks, file)
    if token is None and look is None and local:
        return None
    labels = new_token() if token is None else check_token(token)
    if look is not None and check_token(look, "--look-token") == labels:
        raise EverylabelError("--look-token is the same as --token; expected another")
    return Tokens(labels, look)


def _read(file: Path) -> tuple[str, str | None]:
    """Return the tokens in a file: line 1 for labelling, line 2 (optional) read-only."""
    try:
        if file.exists() and (not file.is_file() or file.stat().st_size > LARGEST_FILE):
            raise EverylabelError(
                f"--token-file {str(file)!r} is no small file; expected a line or two of text"
            )
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise EverylabelError(f"--token-file {str(file)!r} cannot be read ({error})") from error
    if not 1 <= len(lines) <= 2 or len(set(lines)) != len(lines):
        raise EverylabelError(
            f"--token-file {str(file)!r} has {len(lines)} lines of text; expected the token on the first, "
            "and on the second, if there is one, a read-only token"
        )
    checked = [check_token(line, f"--token-file {str(file)!r}: a line") for line in lines]
    return checked[0], checked[1] if len(checked) > 1 else None


def _same(given: str, token: str | None) -> bool:
    return token is not None and hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


class Guesses:
    """Counts distinct wrong tokens by address: a browser that repeats an outdated token counts once.

    An address that has sent a valid token is never locked out, since several people may share it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wrong: dict[str, tuple[float, set[int]]] = {}  # -> time of the first, hashes of all
        self._right: dict[str, None] = {}

    def pause(self, address: str) -> int:
        """Return the seconds for which an address is still locked out; 0 if it is not."""
        place = _network(address)
        at, tokens = self._wrong.get(place, (0.0, ()))
        locked = len(tokens) >= WRONG and place not in self._right
        return max(0, ceil(at + LOCKED - self._clock())) if locked else 0

    def wrong(self, address: str, token: str) -> None:
        """Count a wrong token."""
        place, now = _network(address), self._clock()
        at, tokens = self._wrong.pop(place, (now, set[int]()))
        at, tokens = (at, tokens) if now - at < LOCKED else (now, set())
        if len(tokens) < WRONG:
            tokens.add(hash(token))
        self._wrong[place] = at, tokens
        _forget(self._wrong)

    def right(self, address: str) -> None:
        """Record that an address has sent a valid token."""
        self._right[_network(address)] = None
        _forget(self._right)


def _network(address: str) -> str:
    """Return an IPv4 address itself, or an IPv6 address's /64 network, in which one machine may have many."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        return str(found.ipv4_mapped or found.exploded[:19])  # dual-stack: ::ffff:192.0.2.7
    return address


def _forget(known: dict[str, Any]) -> None:
    if len(known) > REMEMBERED:
        del known[next(iter(known))]
