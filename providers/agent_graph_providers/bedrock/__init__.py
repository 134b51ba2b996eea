"""Amazon Bedrock: the Converse API."""

from agent_graph_providers.bedrock.media import guarded
from agent_graph_providers.bedrock.model import BedrockModel
from agent_graph_providers.bedrock.reading import messages_from_converse

__all__ = ['BedrockModel', 'guarded', 'messages_from_converse']
