"""Models that wrap models, to keep a call alive: retries, fallbacks, limits, a cache, counting, timeouts.

Each is a `Model`, so they combine in any order: `CachedModel(FallbackModel([RetryingModel('openai:gpt-5-mini'), other]), path)`.
"""

from agent_graph.errors import AllModelsFailed, InputTooLong
from agent_graph.models.backoff import Backoff
from agent_graph.models.cached import CachedModel, CacheMode
from agent_graph.models.counting import CountingModel, TokenCount, count_tokens
from agent_graph.models.failures import retryable
from agent_graph.models.fallback import FallbackModel, refused
from agent_graph.models.limited import LimitedModel
from agent_graph.models.limiter import Limiter
from agent_graph.models.retrying import RetryingModel
from agent_graph.models.timeouts import TimeoutModel
from agent_graph.models.wrapper import WrapperModel

__all__ = [
    'AllModelsFailed',
    'Backoff',
    'CacheMode',
    'CachedModel',
    'CountingModel',
    'FallbackModel',
    'InputTooLong',
    'LimitedModel',
    'Limiter',
    'RetryingModel',
    'TimeoutModel',
    'TokenCount',
    'WrapperModel',
    'count_tokens',
    'refused',
    'retryable',
]
