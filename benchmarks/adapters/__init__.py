"""One module for each engine that is measured; `benchmarks.worker.Adapter` is what each must have."""

from __future__ import annotations

__all__: list[str] = []
