"""Vertex: projects, locations and tokens. Nothing of it is read before the first request.

Tokens come from google-auth, which blocks, so it is asked in a worker thread, and only when the token at hand has expired.
An API key instead of all that is what Google calls express mode.
"""

from __future__ import annotations

import asyncio
import os
import threading
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from agent_graph.errors import ConfigError, ModelError, ModelHTTPError, ModelTimeout, ModelUnreachable
from agent_graph_providers.google.wire import resource_path
from agent_graph_providers.wire.errors import Asked

__all__ = ['LOCATION_ENV', 'PROJECT_ENV', 'CloudDoor', 'Credentials', 'credentials_at_hand']

PROJECT_ENV = 'GOOGLE_CLOUD_PROJECT'
LOCATION_ENV = 'GOOGLE_CLOUD_LOCATION'

_FILE_ENV = 'GOOGLE_APPLICATION_CREDENTIALS'
_SCOPE = 'https://www.googleapis.com/auth/cloud-platform'
_VERSION = 'v1beta1'
_MULTI_REGIONS = frozenset({'us', 'eu'})
_SIGNING_IN = 60.0
"""Seconds for a new token."""


class Credentials(Protocol):
    """What is used of google-auth's credentials."""

    @property
    def valid(self) -> bool:
        """The token is there and has not expired."""
        ...

    @property
    def token(self) -> str | None: ...

    def refresh(self, request: Any) -> Any:
        """Get a new token; blocks."""
        ...


@dataclass(slots=True)
class CloudDoor:
    """The way into Vertex. `project`, `location` and `credentials` as given; `keyed`: an API key was given with the model.

    Without a project, `GOOGLE_CLOUD_PROJECT` names it; without that either, a key means express mode, and otherwise the
    project is that of the credentials found on this machine.
    """

    model: str
    project: str | None = None
    location: str | None = None
    credentials: Credentials | None = field(default=None, repr=False)
    keyed: bool = False
    key_env: str = ''
    provider: str = 'google-vertex'
    cloud: bool = True
    _found: str = ''
    _signed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    async def ready(self) -> None:
        """Find credentials and project, once. Raises `ConfigError` if there are none."""
        if not self.express and not (self._signed and self._project()):
            await self._in_thread(self._find)

    @property
    def express(self) -> bool:
        """Requests bear an API key and name no project."""
        if self.keyed:
            return True
        chosen = self.credentials is not None or self._project()
        return not chosen and bool(self.key_env and os.environ.get(self.key_env, '').strip())

    def address(self) -> str:
        """The base URL of the location."""
        where = 'global' if self.express else self._location()
        if where == 'global':
            return f'https://aiplatform.googleapis.com/{_VERSION}'
        if where in _MULTI_REGIONS:
            return f'https://aiplatform.{where}.rep.googleapis.com/{_VERSION}'
        return f'https://{where}-aiplatform.googleapis.com/{_VERSION}'

    def resource(self, name: str) -> str:
        if name.startswith('projects/'):  # an endpoint of somebody's own
            return resource_path(name)
        if not name.startswith('publishers/'):
            publisher, _, model = name.rpartition('/')
            name = f'publishers/{publisher or "google"}/models/{model}'
        if self.express:
            return resource_path(name)
        return resource_path(f'projects/{self._project() or "-"}/locations/{self._location()}/{name}')

    async def headers(self, key: str) -> dict[str, str]:
        if self.express:
            return {'x-goog-api-key': key}
        credentials = self.credentials
        if credentials is None or not credentials.valid:
            await self._in_thread(self._refresh)
            credentials = self.credentials
        assert credentials is not None
        headers = {'authorization': f'Bearer {credentials.token}'}
        if quota := getattr(credentials, 'quota_project_id', None):
            headers['x-goog-user-project'] = quota
        return headers

    def guard(self, asked: Asked) -> None:
        if not self.express:
            asked.to_check = None  # no key was asked with

    def described(self) -> dict[str, Any]:
        """What of this changes answers, as JSON data."""
        return {'project': '' if self.express else self._project(), 'location': self._location()}

    def secrets(self) -> tuple[str, ...]:
        """The token at hand, which no error may show."""
        token = getattr(self.credentials, 'token', None)
        return (token,) if isinstance(token, str) and token else ()

    def _project(self) -> str:
        return self.project or os.environ.get(PROJECT_ENV, '').strip() or self._found

    def _location(self) -> str:
        return self.location or os.environ.get(LOCATION_ENV, '').strip() or 'global'

    # In a worker thread

    def _find(self) -> None:
        with self._lock:
            self._sign_in()
            if not self._project():
                raise ConfigError(
                    f'google-vertex does not know the project of {self.model!r}; set {PROJECT_ENV}, pass project=, '
                    f'or use a key instead (express mode): {self._keyed()}'
                )

    def _refresh(self) -> None:
        with self._lock:
            credentials = self._sign_in()
            if not credentials.valid:  # else another thread was here first
                credentials.refresh(_module('google.auth.transport.requests').Request())

    def _sign_in(self) -> Credentials:
        if not self._signed:
            if self.credentials is None:
                self.credentials, project = _module('google.auth').default(scopes=[_SCOPE])
                self._found = project or ''
            else:
                scoped = _module('google.auth.credentials').with_scopes_if_required
                self.credentials = scoped(self.credentials, [_SCOPE])
                self._found = getattr(self.credentials, 'project_id', None) or ''
            self._signed = True
        assert self.credentials is not None
        return self.credentials

    async def _in_thread(self, work: Any) -> None:
        try:
            async with asyncio.timeout(_SIGNING_IN):
                await asyncio.to_thread(work)
        except TimeoutError as error:
            raise self._told(ModelTimeout, f'google-auth gave no token within {_SIGNING_IN:g} s') from error
        except ImportError as error:
            raise ConfigError(
                f'google-vertex signs in with google-auth for {self.model!r}, and the module {error.name!r} is not '
                f'installed; pip install "agent-graph[vertex]", or use a key instead (express mode): {self._keyed()}'
            ) from error
        except (ConfigError, ModelError):
            raise
        except Exception as error:
            if (ours := self._translated(error)) is None:
                raise
            raise ours from error

    def _translated(self, error: Exception) -> Exception | None:
        exceptions = _module('google.auth.exceptions')
        if isinstance(error, exceptions.DefaultCredentialsError):
            return ConfigError(
                f'google-vertex found no credentials of google-auth (the extra agent-graph[vertex]) for {self.model!r} '
                f'({error}); run "gcloud auth application-default login", set {_FILE_ENV} or pass credentials=, or use a '
                f'key instead (express mode): {self._keyed()}'
            )
        if not isinstance(error, exceptions.GoogleAuthError):
            return None
        if isinstance(error, exceptions.TransportError) or getattr(error, 'retryable', False):
            return self._told(ModelUnreachable, f'no token for Vertex ({error}); check the network')
        said = f'{self.provider} gave no token for {self.model!r} ({error}); sign in again or check the credentials'
        return ModelHTTPError(said, status=401, provider=self.provider, model=self.model)

    def _keyed(self) -> str:
        """How requests bear a key; the variable counts only where nothing names a project."""
        if not self.key_env:
            return 'pass api_key='
        named = self.project or self.credentials is not None or os.environ.get(PROJECT_ENV, '').strip()
        return 'pass api_key=' if named else f'set {self.key_env} or pass api_key='

    def _told(self, kind: Any, text: str) -> ModelError:
        return kind(text, provider=self.provider, model=self.model)


def credentials_at_hand() -> str:
    """Where this machine's credentials come from, in a few words and without the network; `''` for nowhere."""
    if os.environ.get(_FILE_ENV, '').strip():
        return f'the file of {_FILE_ENV}'
    folder = os.environ.get('CLOUDSDK_CONFIG', '').strip() or Path.home() / '.config' / 'gcloud'
    return "gcloud's application default" if (Path(folder) / 'application_default_credentials.json').exists() else ''


def _module(name: str) -> Any:
    """A module of google-auth, which is an extra and has no types."""
    return import_module(name)
