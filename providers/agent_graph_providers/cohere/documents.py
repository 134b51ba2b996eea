"""Texts a model may cite: `FilePart` -> Cohere's documents and images, and back."""

from __future__ import annotations

from binascii import b2a_base64
from typing import Any

from agent_graph.errors import MessageError
from agent_graph.messages import FilePart
from agent_graph_providers.wire.ids import digest_of

__all__ = ['DOCUMENT', 'document_file', 'document_of', 'image_of', 'is_image', 'wants_bytes']

DOCUMENT = 'document'
"""In a file's `provider_details`: the document as Cohere has it."""

_TEXTUAL = frozenset({'application/json', 'application/xml', 'application/yaml', 'application/x-yaml'})


def is_image(file: FilePart) -> bool:
    return file.media_type.startswith('image/')


def wants_bytes(file: FilePart) -> bool:
    """Cohere fetches images itself; of documents it takes the text."""
    return file.url is not None and not file.url.startswith('data:') and not is_image(file)


def image_of(file: FilePart) -> dict[str, Any]:
    """The content block for an image. Raises `MessageError` for one that another provider holds."""
    if file.file_id is not None:
        raise MessageError(f'Cohere knows no file called {file.file_id!r}; pass the bytes or an address of the image')
    url = file.url
    if url is None:
        url = f'data:{file.media_type};base64,{b2a_base64(file.data or b"", newline=False).decode()}'
    detail = (file.provider_details or {}).get('detail')
    return {'type': 'image_url', 'image_url': {'url': url, **({'detail': detail} if isinstance(detail, str) else {})}}


def document_of(file: FilePart) -> Any:
    """The document for a file of text, as it came from Cohere or made of it. Raises `MessageError` for any other."""
    own = (file.provider_details or {}).get(DOCUMENT)
    if own is not None:
        return own
    media_type = file.media_type.partition(';')[0]
    if not media_type.startswith('text/') and media_type not in _TEXTUAL:
        raise MessageError(f'Cohere takes no file of type {file.media_type!r}; pass its text, or an image')
    text = _text(file)
    data = {'text': text, **({'title': file.name} if file.name else {})}
    return {'id': file.name or f'document_{digest_of(text, 8)}', 'data': data}


def document_file(document: Any) -> FilePart:
    """A document of a request as a file: its text, and itself for the way back."""
    data: Any = document.get('data') if isinstance(document, dict) else document  # pyright: ignore
    text = '\n'.join(str(v) for v in data.values()) if isinstance(data, dict) else str(data)  # pyright: ignore
    name: Any = document.get('id') if isinstance(document, dict) else None  # pyright: ignore
    return FilePart(
        'text/plain',
        data=text.encode('utf-8', 'replace'),
        name=name if isinstance(name, str) else None,
        provider_details={DOCUMENT: document},
    )


def _text(file: FilePart) -> str:
    if file.data is not None:
        return file.data.decode('utf-8', 'replace')
    if file.url is None or not file.url.startswith('data:'):
        raise MessageError(f'the document {file.file_id or file.url!r} is not at hand; pass its text or its bytes')
    from agent_graph_providers.fetch.data_url import read_data_url

    return read_data_url(file.url).decode('utf-8', 'replace')
