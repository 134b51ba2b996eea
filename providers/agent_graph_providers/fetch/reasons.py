"""Why a file was not fetched; `Fetcher` makes the public errors of them, which also name the address and the redirects."""

from __future__ import annotations

__all__ = ['Failure', 'Refusal']


class Refusal(Exception):
    """It is not allowed. The text says why and, after a semicolon, what to do."""


class Failure(Exception):
    """The network or the server failed. `status` is the HTTP status, 0 where there was no answer."""

    def __init__(self, reason: str, *, status: int = 0) -> None:
        super().__init__(reason)
        self.status = status
