"""What every wire protocol shares: addresses and keys, clients, errors, framing, timeouts, and the asking itself.

A protocol adds two pure mappings to this, messages -> request (`Sent`) and response -> `ResponseBuilder` (`Answer`); see
`agent_graph_providers.wire.model`.
"""

__all__: list[str] = []
