"""The type of the structured answer that `benchmarks.workload.report_json` writes."""

from __future__ import annotations

from pydantic import BaseModel

__all__ = ['Item', 'Report']


class Item(BaseModel):
    id: int = 0
    name: str = ''
    note: str = ''


class Report(BaseModel):
    title: str = ''
    items: list[Item] = []
