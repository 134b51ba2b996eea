"""Ollama: its own chat API."""

from agent_graph_providers.ollama.model import OllamaModel
from agent_graph_providers.ollama.reading import messages_from_ollama

__all__ = ['OllamaModel', 'messages_from_ollama']
