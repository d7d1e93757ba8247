"""What the server says when it cannot do what was asked."""

from everylabel.core.errors import EverylabelError


class Refused(EverylabelError):
    """A request that cannot be met; the person is told why, and nothing has changed."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code
