"""Cohere: the chat API, version 2."""

from agent_graph_providers.cohere.model import CohereModel
from agent_graph_providers.cohere.reading import messages_from_cohere

__all__ = ['CohereModel', 'messages_from_cohere']
