"""Servers that speak Chat Completions, as rows of data: where each is, which key it wants, and where it differs.

A row is all there is to a provider; its `model` is what an entry point names. For a server without a row, use
`OPENAI_COMPAT` with a `base_url`, or make a row of your own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from agent_graph.errors import ConfigError
from agent_graph_providers.wire.access import Site
from agent_graph_providers.wire.errors import shown_url

if TYPE_CHECKING:
    from agent_graph_providers.openai.model import OpenAIModel

__all__ = [
    'ALIBABA',
    'AZURE',
    'BEDROCK_MANTLE',
    'CEREBRAS',
    'CRUSOE',
    'DEEPSEEK',
    'FIREWORKS',
    'GOOGLE_OPENAI_COMPAT',
    'GROQ',
    'HEROKU',
    'HUGGINGFACE',
    'LITELLM_PROXY',
    'LLAMACPP',
    'LMSTUDIO',
    'MISTRAL',
    'MOONSHOTAI',
    'OLLAMA',
    'OPENAI',
    'OPENAI_COMPAT',
    'OPENROUTER',
    'PERPLEXITY',
    'SERVERS',
    'SNOWFLAKE',
    'TOGETHER',
    'VLLM',
    'XAI',
    'ZAI',
    'Server',
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server(Site):
    """One server and its quirks.

    `fields` renames request fields (a dot goes one object down). `stream_usage`: it sends usage at the end of a stream
    when asked to with `stream_options`. `json_schema`: it can hold an answer to a JSON schema; `dialect` is how it wants
    schemas written (`agent_graph.tools.dialects`). `think_tags`: reasoning may come inside the text between `<think>`
    tags. `thinking` names the reasoning fields it takes back in earlier messages. `extra_content`: it takes back that
    vendor field. `refusal`: it knows that message field. `azure`: it has deployments and an `api-version`.
    `tools`: its models can be offered tools; `documents`: they can be sent files other than images and sound. `longest_id` is
    the most characters it takes in a call's id, `short_ids`: it wants exactly nine letters and digits there.
    `cache_control`: it takes marks in the prompt up to which it is to be cached, and one for all of it.
    """

    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    stream_usage: bool = True
    json_schema: bool = True
    dialect: Literal['openai', 'plain', 'google'] = 'openai'
    think_tags: bool = True
    thinking: frozenset[str] = frozenset()
    extra_content: bool = False
    refusal: bool = False
    azure: bool = False
    tools: bool = True
    documents: bool = False
    longest_id: int | None = None
    short_ids: bool = False
    cache_control: bool = False
    endpoint: str = '/chat/completions'

    def model(self, name: str) -> OpenAIModel:
        """The model called `name` on this server; raises `ConfigError` for an empty name."""
        if not name:
            raise ConfigError(f'"{self.name}:" names no model; write the model after the colon: "{self.name}:..."')
        from agent_graph_providers.openai.model import OpenAIModel

        return OpenAIModel(name, server=self)

    def placed(self, address: str, model: str) -> str:
        """The address itself. Raises `ConfigError` for that of a deployment: the SDK makes it from the model's name."""
        if self.azure and '/openai/deployments/' in address:
            host, _, deployment = address.partition('/openai/deployments/')
            raise ConfigError(
                f'the address {shown_url(address)!r} of {self.name} is that of a deployment; pass {shown_url(host)!r}, and '
                f'the deployment as the model: {deployment.partition("/")[0].partition("?")[0]!r}'
            )
        return address


_REASONING = frozenset({'reasoning'})
_REASONING_CONTENT = frozenset({'reasoning_content'})
_COMPLETION_TOKENS = MappingProxyType({'max_tokens': 'max_completion_tokens'})
_EFFORT = {'reasoning_effort': 'reasoning.effort'}


@dataclass(frozen=True, slots=True, kw_only=True)
class _OllamaServer(Server):
    def placed(self, address: str, model: str) -> str:
        """OLLAMA_BASE_URL is that of Ollama's own API (`ollama:`), or ends in `/v1` already."""
        return address if urlsplit(address).path else f'{address}/v1'


def _local(name: str, base_url: str, env: str, *, thinking: frozenset[str] = frozenset()) -> Server:
    """A server people run themselves: no key unless they set one."""
    return Server(
        name=name,
        base_url=base_url,
        base_url_env=f'{env}_BASE_URL',
        key_env=f'{env}_API_KEY',
        key_optional=True,
        thinking=thinking,
    )


OPENAI = Server(
    name='openai',
    base_url='https://api.openai.com/v1',
    base_url_env='OPENAI_BASE_URL',
    key_env='OPENAI_API_KEY',
    fields=_COMPLETION_TOKENS,
    think_tags=False,
    refusal=True,
    longest_id=40,
    documents=True,
)
AZURE = Server(
    name='azure',
    base_url_env='AZURE_OPENAI_ENDPOINT',
    key_env='AZURE_OPENAI_API_KEY',
    fields=_COMPLETION_TOKENS,
    think_tags=False,
    refusal=True,
    azure=True,
    longest_id=40,
    documents=True,
)
OPENAI_COMPAT = Server(
    name='openai_compat',
    base_url_env='OPENAI_BASE_URL',
    key_env='OPENAI_API_KEY',
    key_optional=True,
    thinking=frozenset({'reasoning', 'reasoning_content'}),
)
OLLAMA = _OllamaServer(
    name='ollama_openai',
    provider='ollama',
    base_url='http://127.0.0.1:11434/v1',
    base_url_env='OLLAMA_BASE_URL',
    key_env='OLLAMA_API_KEY',
    key_optional=True,
    thinking=_REASONING,
)
VLLM = _local('vllm', 'http://127.0.0.1:8000/v1', 'VLLM', thinking=frozenset({'reasoning', 'reasoning_content'}))
LLAMACPP = _local('llamacpp', 'http://127.0.0.1:8080/v1', 'LLAMACPP', thinking=_REASONING_CONTENT)
LMSTUDIO = _local('lmstudio', 'http://127.0.0.1:1234/v1', 'LMSTUDIO')
LITELLM_PROXY = _local('litellm_proxy', 'http://127.0.0.1:4000', 'LITELLM_PROXY', thinking=_REASONING_CONTENT)
OPENROUTER = Server(
    name='openrouter',
    base_url='https://openrouter.ai/api/v1',
    key_env='OPENROUTER_API_KEY',
    fields=MappingProxyType(_EFFORT),
    thinking=frozenset({'reasoning', 'reasoning_details'}),
    cache_control=True,
    documents=True,
)
GROQ = Server(
    name='groq',
    base_url='https://api.groq.com/openai/v1',
    key_env='GROQ_API_KEY',
    fields=_COMPLETION_TOKENS,
    thinking=_REASONING,
)
MISTRAL = Server(
    name='mistral',
    base_url='https://api.mistral.ai/v1',
    key_env='MISTRAL_API_KEY',
    fields=MappingProxyType({'seed': 'random_seed'}),
    stream_usage=False,  # it refuses the option and sends usage with the last chunk anyway
    thinking=frozenset({'thinking'}),
    short_ids=True,
)
DEEPSEEK = Server(
    name='deepseek',
    base_url='https://api.deepseek.com',
    key_env='DEEPSEEK_API_KEY',
    json_schema=False,
    thinking=_REASONING_CONTENT,  # beside tool calls it insists on having it back
)
TOGETHER = Server(
    name='together', base_url='https://api.together.xyz/v1', key_env='TOGETHER_API_KEY', thinking=_REASONING
)
XAI = Server(name='xai', base_url='https://api.x.ai/v1', key_env='XAI_API_KEY', provider='x-ai')
CEREBRAS = Server(
    name='cerebras',
    base_url='https://api.cerebras.ai/v1',
    key_env='CEREBRAS_API_KEY',
    fields=_COMPLETION_TOKENS,
    thinking=_REASONING,
)
ALIBABA = Server(
    name='alibaba',
    base_url='https://dashscope-intl.aliyuncs.com/compatible-mode/v1',
    key_env='DASHSCOPE_API_KEY',
    base_url_env='DASHSCOPE_BASE_URL',
    thinking=_REASONING_CONTENT,
)
BEDROCK_MANTLE = Server(
    name='bedrock_mantle',
    base_url='https://bedrock-mantle.us-east-1.api.aws/v1',
    base_url_env='BEDROCK_MANTLE_BASE_URL',
    key_env='AWS_BEARER_TOKEN_BEDROCK',
    provider='aws',
)
CRUSOE = Server(
    name='crusoe',
    base_url='https://managed-inference-api-proxy.crusoecloud.com/v1',
    base_url_env='CRUSOE_BASE_URL',
    key_env='CRUSOE_API_KEY',
    thinking=_REASONING,
)
FIREWORKS = Server(name='fireworks', base_url='https://api.fireworks.ai/inference/v1', key_env='FIREWORKS_API_KEY')
GOOGLE_OPENAI_COMPAT = Server(
    name='google_openai_compat',
    base_url='https://generativelanguage.googleapis.com/v1beta/openai',
    key_env='GEMINI_API_KEY',
    provider='google',
    dialect='google',
    think_tags=False,
    extra_content=True,  # thought signatures travel in it
)
HEROKU = Server(
    name='heroku',
    base_url='https://us.inference.heroku.com/v1',
    base_url_env='HEROKU_INFERENCE_URL',
    key_env='HEROKU_INFERENCE_KEY',
)
HUGGINGFACE = Server(name='huggingface', base_url='https://router.huggingface.co/v1', key_env='HF_TOKEN')
MOONSHOTAI = Server(
    name='moonshotai',
    base_url='https://api.moonshot.ai/v1',
    key_env='MOONSHOT_API_KEY',
    base_url_env='MOONSHOT_BASE_URL',
    thinking=_REASONING_CONTENT,
)
PERPLEXITY = Server(name='perplexity', base_url='https://api.perplexity.ai', key_env='PERPLEXITY_API_KEY', tools=False)
SNOWFLAKE = Server(
    name='snowflake',
    base_url_env='SNOWFLAKE_BASE_URL',
    key_env='SNOWFLAKE_TOKEN',
    fields=MappingProxyType({**_COMPLETION_TOKENS, **_EFFORT}),
    thinking=frozenset({'reasoning_details'}),
)
ZAI = Server(
    name='zai',
    base_url='https://api.z.ai/api/paas/v4',
    key_env='ZAI_API_KEY',
    base_url_env='ZAI_BASE_URL',
    thinking=_REASONING_CONTENT,
)

SERVERS: Mapping[str, Server] = MappingProxyType(
    {
        row.name: row
        for row in (
            OPENAI,
            AZURE,
            OPENAI_COMPAT,
            OLLAMA,
            VLLM,
            LLAMACPP,
            LMSTUDIO,
            LITELLM_PROXY,
            OPENROUTER,
            GROQ,
            MISTRAL,
            DEEPSEEK,
            TOGETHER,
            XAI,
            CEREBRAS,
            ALIBABA,
            BEDROCK_MANTLE,
            CRUSOE,
            FIREWORKS,
            GOOGLE_OPENAI_COMPAT,
            HEROKU,
            HUGGINGFACE,
            MOONSHOTAI,
            PERPLEXITY,
            SNOWFLAKE,
            ZAI,
        )
    }
)
"""Every known server by the prefix of its models."""
