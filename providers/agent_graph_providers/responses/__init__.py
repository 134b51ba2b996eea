"""The Responses API: OpenAI and the servers that speak its protocol."""

from agent_graph_providers.responses.model import ResponsesModel
from agent_graph_providers.responses.reading import messages_from_responses
from agent_graph_providers.responses.servers import SERVERS, ResponsesServer

__all__ = ['SERVERS', 'ResponsesModel', 'ResponsesServer', 'messages_from_responses']
