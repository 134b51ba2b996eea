"""`FallbackModel`: asks the next model when one fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Never

from agent_graph.capabilities import Capabilities, capabilities_of
from agent_graph.errors import AllModelsFailed, ConfigError, ModelError, UnexpectedModelBehavior
from agent_graph.events import RequestRetried
from agent_graph.messages import AssistantMessage, JsonValue, Message
from agent_graph.model import Model, RequestInfo, ResponseBuilder
from agent_graph.models.bounds import check_callable, check_on
from agent_graph.models.spending import Spent
from agent_graph.models.wrapper import LOG, WrapperModel, identity_of, is_free, line, title, usable
from agent_graph.registry import infer_model

__all__ = ['FallbackModel', 'refused']


def refused(response: AssistantMessage) -> bool:
    """True for a response that the provider filtered or in which the model refused."""
    return response.refusal is not None or response.finish_reason in ('refusal', 'content_filter')


@dataclass(slots=True)
class _Tried:
    """What the models asked so far came to."""

    errors: list[Exception] = field(default_factory=list[Exception])
    told: list[JsonValue] = field(default_factory=list[JsonValue])
    spent: Spent = field(default_factory=Spent)


class FallbackModel(WrapperModel):
    """Models asked one after the other until one answers. It bears the name of the first.

    `on` says which errors let the next one try: exception types or a function of the exception, by default every
    `ModelError`. `on_response` is a function of a whole response that is to be taken for a failure, such as `refused`.
    Any other error is raised as it is. A streamed answer falls over only before its reader has seen any of it.

    What failed is in the response: `provider_details['fallback']`, a list of `{'model', 'provider', 'error'}`; the names of
    the model that answered are in the response as always; tokens that the others used are in its usage, and in
    `provider_details['spent_by_others']` for their price. Each fall is a `RequestRetried` event and a line in the log
    `agent_graph.models`. When all fail, `AllModelsFailed` holds every error; if the last one came to a response that
    `on_response` rejects, that response is the answer.
    """

    def __init__(
        self,
        models: Sequence[Model | str],
        *more: Never,
        on: type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool] = ModelError,
        on_response: Callable[[AssistantMessage], bool] | None = None,
    ) -> None:
        given: Any = models
        if more or isinstance(given, str) or not isinstance(given, Sequence) or not given:
            all_given: list[Any] = [models, *more]
            shown = ', '.join(map(repr, all_given))
            raise ConfigError(f'FallbackModel({shown}) got no list of models; pass them as a list, best first: [a, b]')
        self._models: list[Model | str] = [usable(m) for m in models]
        check_on(on)
        if on_response is not None:
            check_callable(on_response=on_response)
        super().__init__(models[0])
        self._on = on
        self._on_response = on_response

    @property
    def models(self) -> tuple[Model, ...]:
        """The models, in the order they are asked."""
        return tuple(self._model(index) for index in range(len(self._models)))

    @property
    def capabilities(self) -> Capabilities:
        """What all of them can do: any one may have to answer."""
        first, *others = [capabilities_of(model) for model in self.models]
        lacking = [f.name for f in fields(first) if any(getattr(r, f.name) is False for r in others)]
        return replace(first, **dict.fromkeys(lacking, False))

    @property
    def identity(self) -> JsonValue:
        return {'fallback': [identity_of(model) for model in self.models]}

    def __repr__(self) -> str:
        return f'FallbackModel({self._models!r})'

    async def respond(self, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder) -> None:
        """Ask one after the other until one answers."""
        tried = _Tried()
        try:
            for index in range(len(self._models)):
                if await self._ask(index, tried, messages, info, out):
                    return
        finally:
            tried.spent.leave(out)

    async def _ask(
        self, index: int, tried: _Tried, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder
    ) -> bool:
        """Ask one model; false if the next one has to be asked."""
        model = self._model(index)
        out.model_name, out.provider_name = model.name, model.provider
        try:
            await model.respond(messages, info, out)
        except Exception as error:
            if not self._falls(error) or not is_free(out):
                for before in tried.errors:
                    error.add_note(f'before that: {line(before)}')
                raise
            tried.errors.append(error)
            reason = line(error)
            if index + 1 == len(self._models):
                raise _all_failed(self.models, tried.errors) from error
        else:
            reason = self._rejected(out) if index + 1 < len(self._models) and is_free(out) else None
            if reason is None:
                _keep(out, tried.told)
                return True
            tried.errors.append(UnexpectedModelBehavior(reason))
        tried.told.append({'model': model.name, 'provider': model.provider, 'error': reason})
        await self._prepare(index + 1, tried, reason, out)
        return False

    def _model(self, index: int) -> Model:
        model = self._models[index]
        if isinstance(model, str):
            model = self._models[index] = infer_model(model)
        return model

    @property
    def wrapped(self) -> Model:
        """The first model."""
        return self._model(0)

    def _falls(self, error: Exception) -> bool:
        on: Any = self._on
        return isinstance(error, on) if isinstance(on, type | tuple) else bool(on(error))

    def _rejected(self, out: ResponseBuilder) -> str | None:
        """Why the response that came will not do; `None` if it will."""
        if self._on_response is None:
            return None
        response = out.build()
        if not self._on_response(response):
            return None
        return line(f'its response was not wanted: {response.refusal or response.finish_reason or "no reason given"}')

    async def _prepare(self, index: int, tried: _Tried, reason: str, out: ResponseBuilder) -> None:
        model = self._model(index)
        LOG.info('%s is asked instead, after %s', title(model), reason)
        await out.notice(
            RequestRetried, attempt=index + 1, delay=0.0, error=reason, model=model.name, provider=model.provider
        )
        tried.spent.take(out)
        await out.restart(reason)


def _keep(out: ResponseBuilder, told: list[JsonValue]) -> None:
    """Leave what was tried before with the response."""
    if told:
        details = out.provider_details or {}
        out.provider_details = {**details, 'fallback': [*told, *details.get('fallback', ())]}


def _all_failed(models: Sequence[Model], errors: list[Exception]) -> AllModelsFailed:
    lines = [f'{title(m)}: {line(e)}' for m, e in zip(models, errors, strict=True)]
    told = '; '.join(f'{index}. {text}' for index, text in enumerate(lines, 1))
    first = models[0]
    return AllModelsFailed(
        f'none of {len(models)} models answered: {told}', errors=errors, provider=first.provider, model=first.name
    )
