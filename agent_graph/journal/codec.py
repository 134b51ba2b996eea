"""Entries and records as versioned JSON: the only form a store may keep outside its own process.

An entry is `{"v": 1, "entry": {"kind": ..., ...}}`, a record the same with `seq` and `time` beside it. Fields that
have their default value are left out. File bytes are URL-safe base64.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent_graph.journal.entries import Entry, Record
from agent_graph.messages.versioned import Upgrade, VersionedJson

__all__ = ['UPGRADES', 'VERSION', 'decode', 'decode_record', 'encode', 'encode_record']

VERSION = 1
"""The format written now."""

UPGRADES: Mapping[int, Upgrade] = {}
"""By format number: what turns such a document into the next number's. One for every number below `VERSION`."""


@dataclass(frozen=True, slots=True)
class _Stored:
    v: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class _Line:
    v: int
    seq: int
    time: float
    entry: Entry


_ENTRY = VersionedJson(_Stored, name='the journal entry', version=VERSION, upgrades=UPGRADES)
_RECORD = VersionedJson(_Line, name='the journal record', version=VERSION, upgrades=UPGRADES)


def encode(entry: Entry) -> bytes:
    """An entry as UTF-8 JSON; raises `CodecError` naming the value that JSON cannot hold exactly."""
    return _ENTRY.dump(_Stored(VERSION, entry))


def decode(data: bytes | str) -> Entry:
    """The entry in a document of `encode`, of this or an older format; raises `CodecError` for anything else."""
    return _ENTRY.load(data).entry


def encode_record(record: Record) -> bytes:
    """A record, its place and time included, as one line of UTF-8 JSON; raises `CodecError` like `encode`."""
    return _RECORD.dump(_Line(VERSION, record.seq, record.time, record.entry))


def decode_record(data: bytes | str) -> Record:
    """The record in a document of `encode_record`; raises `CodecError` for anything else."""
    line = _RECORD.load(data)
    return Record(line.seq, line.time, line.entry)
