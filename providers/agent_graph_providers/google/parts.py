"""The parts of a `Content` -> our parts, and what is kept of them so that they can go back as they came.

A part is one thing (a text, a call, a file, ...) and a few fields beside it, of which the thought signature is the one that
matters. Those fields are the part's `provider_details`, under the API's own names.
"""

from __future__ import annotations

from binascii import Error, a2b_base64
from collections.abc import Mapping
from typing import Any, TypeAlias, cast

from agent_graph.messages import BuiltinToolCallPart, BuiltinToolReturnPart, FilePart

__all__ = ['BESIDE', 'SIGNATURE', 'beside', 'builtin_part', 'file_from_google', 'kind_of']

Part: TypeAlias = Mapping[str, Any]

SIGNATURE = 'thoughtSignature'

BESIDE = frozenset(
    {
        SIGNATURE,
        'thought',
        'mediaResolution',
        'mediaProcessing',
        'videoMetadata',
        'audioMetadata',
        'documentMetadata',
        'spreadsheetMetadata',
        'speechMetadata',
        'audioTranscription',
        'partMetadata',
    }
)
"""What may stand in a part beside what it is."""

_CALLS = frozenset({'executableCode', 'toolCall'})
_KINDS = _CALLS | {
    'text',
    'functionCall',
    'functionResponse',
    'inlineData',
    'fileData',
    'codeExecutionResult',
    'toolResponse',
}
"""What the provider runs itself."""

_OWN_FILES = ('gs://', 'https://generativelanguage.googleapis.com/')
"""Addresses that mean a file only to Google."""


def kind_of(part: Part) -> str:
    """The field that says what a part is; `''` if there is none.

    A field nobody knows says it only where no known one does: it may as well be another one that stands beside.
    """
    kinds = [key for key, value in part.items() if key not in BESIDE and value is not None]
    return next((key for key in kinds if key in _KINDS), kinds[0] if kinds else '')


def beside(part: Part, kind: str) -> dict[str, Any] | None:
    """Everything in a part but what it is."""
    return {key: value for key, value in part.items() if key != kind} or None


def file_from_google(part: Part, kind: str) -> FilePart:
    """The file in an `inlineData` or `fileData` part. Raises `ValueError` if there is none."""
    inner = part[kind]
    fields = cast(dict[str, Any], inner) if isinstance(inner, dict) else {}
    media_type = str(fields.get('mimeType') or 'application/octet-stream')
    name = fields.get('displayName')
    name = name if isinstance(name, str) else None
    details = beside(part, kind)
    if kind == 'fileData':
        uri = fields.get('fileUri')
        if not isinstance(uri, str) or not uri:
            raise ValueError(f'a file has the address {uri!r}')
        if uri.startswith(_OWN_FILES) or not uri.startswith(('https:', 'http:')):
            return FilePart(media_type, file_id=uri, name=name, provider_details=details)
        return FilePart(media_type, url=uri, name=name, provider_details=details)
    return FilePart(media_type, data=_decoded(fields.get('data')), name=name, provider_details=details)


def builtin_part(part: dict[str, Any], kind: str) -> BuiltinToolCallPart | BuiltinToolReturnPart:
    """A part about a tool the provider runs itself, or of a kind nobody knows yet: kept whole, to go back whole."""
    inner = part[kind]
    fields = cast(dict[str, Any], inner) if isinstance(inner, dict) else {}
    call_id = fields.get('id')
    call_id = call_id if isinstance(call_id, str) else ''
    told = {key: value for key, value in fields.items() if key != 'id'}
    if kind not in _CALLS:
        return BuiltinToolReturnPart(kind, cast(Any, told or inner), call_id, {'part': part})
    args = fields.get('args') if kind == 'toolCall' else told
    return BuiltinToolCallPart(kind, cast(Any, args) if isinstance(args, dict) else {}, call_id, {'part': part})


def _decoded(data: Any) -> bytes:
    if not isinstance(data, str):
        raise ValueError(f'a file has the data {data!r}')
    text = data.replace('-', '+').replace('_', '/')  # either alphabet is legal here
    try:
        return a2b_base64(text + '=' * (-len(text) % 4), strict_mode=True)
    except (Error, ValueError) as error:
        raise ValueError(f'the data of a file are not base64: {error}') from error
