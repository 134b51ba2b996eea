"""The engine: one run's state, the three nodes it walks, and the one door to the world."""

from __future__ import annotations

__all__: list[str] = []
