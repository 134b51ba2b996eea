"""Files as parts: bytes go inside the request, addresses and files that Google holds are only named."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from typing import Any
from urllib.parse import urlsplit

from agent_graph.messages import FilePart
from agent_graph_providers.google.family import Family
from agent_graph_providers.google.parts import BESIDE

__all__ = ['fetchable', 'file_to_google', 'in_result']

_FILES = 'https://generativelanguage.googleapis.com/v1beta/'
"""What stands before `files/...`, the name of a file uploaded to the Gemini API."""

_NOT_SHOWN = frozenset({'thought', 'thoughtSignature'})
_VIDEO_HOSTS = frozenset({'youtube.com', 'www.youtube.com', 'm.youtube.com', 'youtu.be'})
_FETCHED = ('image/', 'text/', 'application/json', 'application/pdf')
_IN_RESULTS = frozenset({'image/png', 'image/jpeg', 'image/webp', 'application/pdf', 'text/plain'})


def file_to_google(file: FilePart, *, own: bool = False) -> dict[str, Any]:
    """The part for a file. Raises `MessageError` for a `data:` address that cannot be read.

    `own`: it came from this provider, and all that stood beside it goes back with it; from anybody else, only how to read
    it does (`videoMetadata`, `mediaResolution` and the like in `provider_details`).
    """
    details = file.provider_details or {}
    kept = {key: value for key, value in details.items() if key in BESIDE and (own or key not in _NOT_SHOWN)}
    name = {'displayName': file.name} if own and file.name is not None else {}
    if file.file_id is not None:
        return {'fileData': {'fileUri': _uri(file.file_id), **_type(file), **name}, **kept}
    if file.url is not None and not _is_data(file.url):
        return {'fileData': {'fileUri': file.url, **_type(file), **name}, **kept}
    data = _base64(file)
    return {'inlineData': {'data': data, 'mimeType': _inline_type(file, data), **name}, **kept}


def in_result(file: FilePart) -> bool:
    """A function response can hold it, where the model's family takes any."""
    return file.media_type in _IN_RESULTS


def fetchable(file: FilePart, family: Family) -> bool:
    """The Gemini API gets this address itself: a video of YouTube, or a picture or document anybody can get by HTTPS."""
    url = urlsplit(file.url or '')
    if url.hostname in _VIDEO_HOSTS:
        return True
    if not family.fetches:
        return False
    return url.scheme == 'https' and file.media_type.startswith(_FETCHED)


def _is_data(url: str) -> bool:
    return url[:5].lower() == 'data:'


def _uri(file_id: str) -> str:
    return _FILES + file_id if file_id.startswith('files/') else file_id


def _type(file: FilePart) -> dict[str, str]:
    """The media type, unless it says nothing: then Google finds out itself."""
    return {} if _is_vague(file) else {'mimeType': file.media_type}


def _is_vague(file: FilePart) -> bool:
    return file.media_type.endswith('/*') or file.media_type == 'application/octet-stream'


def _inline_type(file: FilePart, data: str) -> str:
    """The media type of bytes, as they show it where it was not told: the API refuses what says nothing."""
    if not _is_vague(file):
        return file.media_type
    from agent_graph_providers.fetch.media_type import sniff

    try:
        return sniff(a2b_base64(data[:400])) or file.media_type
    except ValueError:  # base64 that is none is for the API to refuse
        return file.media_type


def _base64(file: FilePart) -> str:
    data = file.data
    if data is None:
        assert file.url is not None  # FilePart holds exactly one of data, url and file_id
        head, _, text = file.url.partition(',')
        if head.endswith(';base64') and '%' not in text:
            return text  # as it is: nothing is decoded, and nothing changes
        from agent_graph_providers.fetch.data_url import read_data_url

        data = read_data_url(file.url)
    return b2a_base64(data, newline=False).decode()
