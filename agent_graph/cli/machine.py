"""The form for programs: JSON, one object a line, ASCII only."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from pydantic_core import to_jsonable_python

from agent_graph.journal.codec import encode, encode_record
from agent_graph.journal.entries import Entry, Record, RunInfo
from agent_graph.messages import Message, dump_json
from agent_graph.pending import Pending

__all__ = ['conversation_data', 'entry_data', 'info_data', 'pending_data', 'plain', 'record_data', 'write_json']


def plain(value: Any) -> Any:
    """`value` as JSON data; what has no JSON form is shown as Python writes it."""
    return to_jsonable_python(value, bytes_mode='base64', inf_nan_mode='strings', fallback=repr)


def write_json(value: Any, stream: TextIO | None = None) -> None:
    """Write one line. ASCII only, so that any text can be written anywhere and no terminal acts on it."""
    print(json.dumps(plain(value)).replace('\x7f', '\\u007f'), file=stream or sys.stdout, flush=True)


def info_data(info: RunInfo, stands: str) -> dict[str, Any]:
    """A run as `runs list` gives it: `status` is what its journal says, `state` how it stands. Times are Unix seconds."""
    forked = info.forked_from
    return {
        'run_id': info.run_id,
        'agent': info.agent,
        'status': info.status,
        'state': stands,
        'created': info.created,
        'updated': info.updated,
        'entries': info.last_seq,
        'parent': plain(info.parent),
        'forked_from': None if forked is None else {'run_id': forked[0], 'at': forked[1]},
    }


def pending_data(waiting: Sequence[Pending]) -> list[dict[str, Any]]:
    """What a run waits for, each with the token that an answer may be given by."""
    return [{**plain(pending), 'token': pending.token} for pending in waiting]


def record_data(record: Record) -> Any:
    """A record in its stored form, the same as a line of `runs export`."""
    return json.loads(encode_record(record))


def entry_data(entry: Entry) -> Any:
    """An entry in its stored form."""
    return json.loads(encode(entry))['entry']


def conversation_data(messages: Sequence[Message]) -> dict[str, Any]:
    """`v` and `messages`, as `dump_json` writes them and `runs fork --edit` reads them."""
    return json.loads(dump_json(messages))
