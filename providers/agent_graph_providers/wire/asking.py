"""Asking once: send a request, read its answer, and tell what went wrong in our words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from agent_graph.errors import ModelError
from agent_graph.model import ModelSettings
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.framing import Framings
from agent_graph_providers.wire.reading import Answer, Response, read_answer
from agent_graph_providers.wire.timing import Watch

__all__ = ['ask']


async def ask(
    send: Callable[[], Awaitable[Response]],
    answer: Answer,
    asked: Asked,
    settings: ModelSettings,
    framings: Framings | None = None,
) -> None:
    """Await `send()` and read what comes into `answer`. The response is closed however this ends.

    Raises `ModelHTTPError` for an error the server told, `ModelTimeout`, `ModelUnreachable`, and `ModelProtocolError` for an
    answer that was cut off or cannot be read.
    """
    response: Response | None = None
    try:
        async with Watch(settings) as watch:
            response = await send()
            if response.status_code >= 400:
                raise await asked.status(response)
            await read_answer(response, answer, asked, watch, framings)
    except ModelError as error:
        error.provider, error.model = asked.provider, asked.model
        raise
    except Exception as error:
        if (ours := asked.translate(error, answering=response is not None)) is None:
            raise
        raise ours from error
    finally:
        answer.settle()
        if response is not None:
            await response.aclose()
