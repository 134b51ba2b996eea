"""Anthropic's Messages API: Claude models, and servers that copy the API."""

from agent_graph_providers.anthropic.families import Family, family_of
from agent_graph_providers.anthropic.model import ANTHROPIC, AnthropicModel, model
from agent_graph_providers.anthropic.reading import messages_from_anthropic

__all__ = ['ANTHROPIC', 'AnthropicModel', 'Family', 'family_of', 'messages_from_anthropic', 'model']
