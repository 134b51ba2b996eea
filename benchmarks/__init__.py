"""What the engine costs: agent_graph beside two hand-written loops, in one interleaved run (`python -m benchmarks`)."""

from __future__ import annotations

__all__: list[str] = []
