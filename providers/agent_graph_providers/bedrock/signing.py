"""Who asks, and in which region: AWS's own rules for both, by botocore, which is loaded when it is first needed.

Its credential chain reads files and may ask the network (a role, a login, the machine's own), so it runs in a worker
thread. Signing itself is quick and happens where the request is made.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from agent_graph.errors import ConfigError, ModelUnreachable
from agent_graph_providers.wire.access import Key

__all__ = ['Account', 'credentials_at_hand']

_INSTALL = 'pip install "agent-graph[bedrock]"'
_WAYS = (
    'set AWS_BEARER_TOKEN_BEDROCK (a Bedrock API key), or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, '
    'or log in with the AWS command line'
)
_VARIABLES = (
    'AWS_ACCESS_KEY_ID',
    'AWS_PROFILE',
    'AWS_WEB_IDENTITY_TOKEN_FILE',
    'AWS_CONTAINER_CREDENTIALS_RELATIVE_URI',
    'AWS_CONTAINER_CREDENTIALS_FULL_URI',
)
_FILES = (('AWS_SHARED_CREDENTIALS_FILE', 'credentials'), ('AWS_CONFIG_FILE', 'config'))
_REGION_IN_ARN = re.compile(r'arn:[^:]+:[^:]+:([a-z0-9-]+):')


class Account:
    """The region and the credentials for one model, found when they are needed and kept.

    `region` and `session` (a botocore or boto3 session) go before what the machine is set up for. May be used from several
    threads and event loops.
    """

    __slots__ = ('_credentials', '_given_region', '_lock', '_model', '_region', '_session', '_tokens', 'signs')

    def __init__(self, model: str, region: str | None, session: Any) -> None:
        self._model = model
        self._given_region = region
        self._session = session
        self._region: str | None = None
        self._credentials: Any = None
        self._tokens: tuple[str, ...] = ()
        self._lock = threading.Lock()
        self.signs = False
        """The last request was signed: it had no key."""

    @property
    def region(self) -> str | None:
        """As given, as the environment says, as botocore's configuration says, or as the model's ARN does."""
        named = os.environ.get('AWS_REGION') or os.environ.get('AWS_DEFAULT_REGION')
        return self._given_region or named or self._region

    def address(self) -> str:
        """Where Bedrock is. Raises `ConfigError` while no region is known."""
        region = self.region
        if not region:
            raise ConfigError(f'no AWS region is set for {self._model!r}; set AWS_REGION, or pass region= or base_url=')
        return f'https://bedrock-runtime.{region}.amazonaws.com'

    def secrets(self) -> Iterable[str]:
        """What an error must not show: servers quote session tokens when a signature is wrong."""
        return self._tokens

    async def prepare(self, *, sign: bool, locate: bool) -> None:
        """Find what is missing: credentials to `sign` with, and the region to `locate` the server by.

        Raises `ConfigError` when botocore is missing, or finds none, `ModelUnreachable` when it cannot reach whom it asks.
        """
        self.signs = sign
        if (locate or sign) and not self.region:
            await _in_thread(self._find_region, sign)
        if sign and self._stale():
            await _in_thread(self._find_credentials)

    def headers(self, url: str, content: bytes) -> Mapping[str, str]:
        """The headers of a signed request. `prepare` comes before."""
        from botocore.auth import SigV4Auth  # pyright: ignore
        from botocore.awsrequest import AWSRequest  # pyright: ignore

        request: Any = AWSRequest(method='POST', url=url, data=content)
        if not self.region:
            raise ConfigError(
                f'no AWS region is set to sign requests to {self._model!r} for; set AWS_REGION, or pass region='
            )
        # The keys are in no variable here: tools that print the variables of a traceback would show them.
        SigV4Auth(self._credentials.get_frozen_credentials(), 'bedrock', self.region).add_auth(request)  # pyright: ignore
        return dict(request.headers.items())

    def _stale(self) -> bool:
        found = self._credentials
        refresh_needed = getattr(found, 'refresh_needed', None)
        return found is None or (refresh_needed is not None and bool(refresh_needed()))

    # In a worker thread

    def _find_region(self, sign: bool) -> None:
        with self._lock:
            in_arn = _REGION_IN_ARN.match(self._model)
            try:
                session = self._made_session()
                self._region = getattr(session, 'region_name', None) or session.get_config_variable('region')
            except ConfigError:
                if sign or in_arn is None:
                    raise
            if not self._region and in_arn is not None:
                self._region = in_arn[1]

    def _find_credentials(self) -> None:
        with self._lock:
            found = self._made_session().get_credentials() if self._credentials is None else self._credentials
            if found is None:
                raise ConfigError(f'no AWS credentials were found for {self._model!r}; {_WAYS}')
            token = Key(found.get_frozen_credentials().token or '')
            if token and token not in self._tokens:
                self._tokens = (*self._tokens, token)[-3:]
            self._credentials = found

    def _made_session(self) -> Any:
        if self._session is None:
            try:
                from botocore.session import Session  # pyright: ignore
            except ImportError as error:
                raise ConfigError(
                    f'{self._model!r} needs botocore to sign requests; run: {_INSTALL}, or set AWS_BEARER_TOKEN_BEDROCK'
                ) from error
            self._session = Session()
        return self._session


def credentials_at_hand() -> str:
    """Where this machine seems to have AWS credentials, in a few words; `''` for nowhere. Nothing is loaded or asked."""
    for name in _VARIABLES:
        if os.environ.get(name):
            return name
    home = Path('~').expanduser()
    for name, usual in _FILES:
        path = Path(os.environ.get(name) or home / '.aws' / usual)
        if path.exists():
            return str(path)
    return ''


async def _in_thread(find: Callable[..., None], *args: object) -> None:
    import anyio.to_thread

    try:
        await anyio.to_thread.run_sync(partial(find, *args), abandon_on_cancel=True)
    except ConfigError:
        raise
    except Exception as error:
        raise _translated(error) from error


def _translated(error: Exception) -> Exception:
    """What botocore says about credentials, in our words; anything else as it is."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if not names & {'BotoCoreError', 'ClientError'}:
        return error
    text = f'{type(error).__name__}: {error}'
    if names & {'HTTPClientError', 'ConnectionError'}:
        return ModelUnreachable(f'AWS credentials could not be fetched ({text}); check the network', provider='aws')
    return ConfigError(f'AWS credentials cannot be had ({text}); {_WAYS}')
