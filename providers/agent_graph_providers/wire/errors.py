"""What can go wrong between us and a server -> our errors. Keys and credentials never get into a message."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlsplit, urlunsplit

from agent_graph.errors import ModelError, ModelHTTPError, ModelProtocolError, ModelTimeout, ModelUnreachable
from agent_graph_providers.wire.jsontext import decode, encode
from agent_graph_providers.wire.waiting import wait_in, wait_told

if TYPE_CHECKING:
    from agent_graph_providers.wire.reading import Response

__all__ = ['Asked', 'shown_url']

T = TypeVar('T')


def shown_url(url: str) -> str:
    """An address fit for a message: without credentials, query and fragment."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ''
        netloc = f'[{host}]' if ':' in host else host
        if parts.port is not None:
            netloc = f'{netloc}:{parts.port}'
        if parts.username or parts.password:
            netloc = f'***@{netloc}'
        return urlunsplit((parts.scheme, netloc, parts.path, '', ''))
    except ValueError:
        return '(an address that cannot be read)'


_STATUS_NAME = re.compile(r'[A-Z]+(?:_[A-Z]+)*')

_SHORTEST_KEY = 8
"""Keys are longer; replacing a stand-in such as `x` would only garble what a server says."""


class Asked:
    """Who was asked, for the errors of one request; `secret` is what must not be shown.

    `to_check` is what to look at when the server does not know who asks: where the key came from.
    """

    __slots__ = ('_more', '_secret', 'model', 'provider', 'to_check', 'url')

    def __init__(self, provider: str, model: str, url: str, to_check: str | None, secret: str) -> None:
        self.provider = provider
        self.model = model
        self.url = shown_url(url)
        self.to_check = to_check
        self._secret = secret if len(secret) >= _SHORTEST_KEY else ''
        self._more: Callable[[], Iterable[str]] = tuple

    def hide_also(self, secrets: Callable[[], Iterable[str]]) -> None:
        """Hide these as well, as they are when there is something to hide: session tokens come and go."""
        self._more = secrets

    def translate(self, error: Exception, *, answering: bool) -> ModelError | None:
        """The error of a request as ours; `None` for one that is not about the server.

        `answering` says that the answer had begun: a lost connection then cuts it off.
        """
        import anyio

        if isinstance(error, (TimeoutError, *_types('APITimeoutError', 'TimeoutException'))):
            return self._said(ModelTimeout, f'{self.url} did not answer in time: {_reason(error)}')
        # Failures of TLS come through the HTTP client as they are, not as errors of its own.
        if answering and isinstance(error, (OSError, anyio.EndOfStream, *_types('RequestError', 'StreamError'))):
            return self.cut(_reason(error))
        if isinstance(error, (OSError, *_types('APIConnectionError', 'RequestError'))):
            return self._made(
                ModelUnreachable, f'no connection to {self.url}', error, 'check the address and the network'
            )
        return None

    def cut(self, reason: str) -> ModelProtocolError:
        """The answer ended before it was whole."""
        return self._said(
            ModelProtocolError, f'the answer from {self.url} was cut off: {reason}; nothing of it was used'
        )

    def unreadable(self, reason: str, body: bytes) -> ModelProtocolError:
        """The answer is none of this protocol."""
        begin = self.hide(body[:200].decode('utf-8', 'replace'))
        return self._said(
            ModelProtocolError, f'the answer from {self.url} cannot be read: {reason}; it begins {begin!r}'
        )

    def refused(
        self, body: Any, *, status: int = 0, retry_after: float | None = None, kind: str | None = None
    ) -> ModelHTTPError:
        """An error the server told, whatever form it has.

        `status` 0 takes the one the body names; `kind` is the error's type where the body does not name it.
        """
        if (text := str(body)) != self.hide(text):
            body = decode(self.hide(encode(body).decode()).encode())
        error = _error_object(body)
        code, kind = error.get('code'), error.get('type', kind)
        if kind is None and isinstance(name := error.get('status'), str) and _STATUS_NAME.fullmatch(name):
            kind = name  # as Google's servers name the kind of an error: `RESOURCE_EXHAUSTED`
        if '__type' in error:  # as Amazon's servers write it: `com.amazon.coral.service#ThrottlingException`
            kind = str(error['__type']).rpartition('#')[2]
        status = status or _status_in(error)
        text = _message(error) or (body if isinstance(body, str) else '') or 'no reason given'
        hint = f'; check {self.to_check}' if status in (401, 403) and self.to_check else ''
        said = f'{self.provider} answered {status or "with an error"} for {self.model!r}: {text}{hint}'
        return ModelHTTPError(
            said,
            status=status,
            provider=self.provider,
            model=self.model,
            code=str(code) if code is not None else None,
            type=str(kind) if kind is not None else None,
            body=body,
            retry_after=retry_after if retry_after is not None else wait_in(body),
        )

    def hide(self, text: str) -> str:
        """The text without the key, should a server have quoted it."""
        if self._secret:
            text = text.replace(self._secret, '***')
        for secret in self._more():
            text = text.replace(secret, '***')
        return text

    async def status(self, response: Response) -> ModelHTTPError:
        """The error of an answer whose status is one; its body is read."""
        raw = await response.aread()
        try:
            body: Any = decode(raw)
        except ValueError:
            body = raw.decode('utf-8', 'replace').strip()
        # Amazon's servers name the type in a header, before an address: `ValidationException:http://...`.
        kind = response.headers.get('x-amzn-errortype', '').partition(':')[0] or None
        wait = wait_told(response.headers, time.time(), response.status_code)
        return self.refused(body, status=response.status_code, retry_after=wait, kind=kind)

    def _made(self, kind: Callable[..., T], what: str, error: Exception, remedy: str) -> T:
        return self._said(kind, f'{what} ({_reason(error)}); {remedy}')

    def _said(self, kind: Callable[..., T], text: str) -> T:
        return kind(self.hide(text), provider=self.provider, model=self.model)


def _error_object(body: Any) -> Mapping[str, Any]:
    if isinstance(body, list) and body:
        return _error_object(cast(list[Any], body)[0])  # where a stream would have been an array, so is its error
    if not isinstance(body, Mapping):
        return {}
    fields = cast(Mapping[str, Any], body)
    error = fields.get('error')
    if isinstance(error, str):
        return {**fields, 'message': error}
    return cast(Mapping[str, Any], error) if isinstance(error, Mapping) else fields


def _message(error: Mapping[str, Any]) -> str:
    for key in ('message', 'detail', 'msg', 'title', 'Message'):
        value = error.get(key)
        if value:
            return value if isinstance(value, str) else repr(value)
    return ''


def _status_in(error: Mapping[str, Any]) -> int:
    """The HTTP status an error object names: under one of several names, or as its code."""
    for key in ('status', 'status_code', 'http_status', 'code'):
        value = error.get(key)
        if isinstance(value, str) and value.isdigit():
            value = int(value)
        if isinstance(value, int) and 400 <= value <= 599:
            return value
    return 0


def _reason(error: Exception) -> str:
    """The innermost words about a lost connection: the SDK's own say only that there was an error."""
    cause: BaseException | None = error
    text = ''
    while cause is not None:
        text = f'{type(cause).__name__}: {cause}' if str(cause) else type(cause).__name__
        cause = cause.__cause__
    return text


def _types(*names: str) -> Any:
    """These exception types of all HTTP clients and SDKs that somebody has loaded."""
    modules = [module for name in ('httpx', 'httpx2', 'openai') if (module := sys.modules.get(name)) is not None]
    return tuple(getattr(module, name) for module in modules for name in names if hasattr(module, name))
