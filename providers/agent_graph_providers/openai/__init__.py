"""Chat Completions: OpenAI and the servers that speak its protocol."""

from agent_graph_providers.openai.model import OpenAIModel
from agent_graph_providers.openai.servers import SERVERS, Server

__all__ = ['SERVERS', 'OpenAIModel', 'Server']
