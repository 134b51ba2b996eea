"""Gemini: Google's `generateContent`, behind the Gemini API and behind Vertex."""

from agent_graph_providers.google.model import GOOGLE, VERTEX, GoogleModel, GoogleVertexModel
from agent_graph_providers.google.reading import messages_from_google

__all__ = ['GOOGLE', 'VERTEX', 'GoogleModel', 'GoogleVertexModel', 'messages_from_google']
