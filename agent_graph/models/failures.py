"""Which failures of a model pass by themselves, so that asking again makes sense."""

from __future__ import annotations

from agent_graph.errors import (
    AllModelsFailed,
    FetchFailed,
    ModelHTTPError,
    ModelProtocolError,
    ModelTimeout,
    ModelUnreachable,
)

__all__ = ['retryable']

_STATUSES = frozenset({408, 409, 425, 429})

_BUSY = frozenset(
    {
        'engineoverloaded',
        'engineoverloadederror',
        'modelnotreadyexception',
        'overloaded',
        'overloadederror',
        'ratelimit',
        'ratelimited',
        'ratelimiterror',
        'ratelimitexceeded',
        'resourceexhausted',
        'serveroverloaded',
        'serviceunavailable',
        'serviceunavailableerror',
        'serviceunavailableexception',
        'slowdown',
        'throttlingexception',
        'toomanyrequests',
        'toomanyrequestsexception',
        'unavailable',
    }
)
"""Providers' words for having too much to do, in small letters without anything between them."""

_FAILING = frozenset(
    {
        'aborted',
        'apierror',
        'badgateway',
        'deadlineexceeded',
        'error',
        'insufficientsystemresource',
        'internal',
        'internalerror',
        'internalfailure',
        'internalservererror',
        'internalserverexception',
        'modelerrorexception',
        'modelstreamerrorexception',
        'modeltimeoutexception',
        'requesttimeout',
        'servererror',
        'timeout',
        'timeouterror',
    }
)
"""Words for a failure on their side. With a status of 4xx beside them the request is at fault after all."""

_LASTING = frozenset(
    {
        'accessterminated',
        'accountdeactivated',
        'billingerror',
        'billinghardlimitreached',
        'billingnotactive',
        'creditbalancetoolow',
        'exceededcurrentquotaerror',
        'insufficientbalance',
        'insufficientcredits',
        'insufficientfunds',
        'insufficientquota',
        'paymentrequired',
        'quotaexceeded',
        'servicequotaexceededexception',
        'spendlimitreached',
    }
)
"""Words for an empty account, which some servers send as 429: waiting does not fill it."""


def retryable(error: Exception) -> bool:
    """True for what passes: no connection, no answer in time, an answer cut off, an overloaded or failing server.

    That is `ModelUnreachable`, `ModelTimeout`, `ModelProtocolError`, and a `ModelHTTPError` of status 408, 409, 425, 429
    or 5xx, or with a provider's word for the like where there is no status (an error inside a stream or an answer). Never
    other errors of 4xx, which are ours, unless they say that the server has too much to do (or, as 424, that a model failed); and never one that says the
    account is empty, also as a 429. `AllModelsFailed` passes when one of its errors does, `FetchFailed` by the status of the file's server.
    """
    if isinstance(error, ModelHTTPError):
        return _passes(error)
    if isinstance(error, AllModelsFailed):
        return any(retryable(e) for e in error.errors)
    if isinstance(error, FetchFailed):
        return not error.status or _is_passing(error.status)
    return isinstance(error, ModelUnreachable | ModelTimeout | ModelProtocolError)


def _passes(error: ModelHTTPError) -> bool:
    words = {_bare(word) for word in (error.code, error.type) if word}
    if words & _LASTING:
        return False
    if _is_passing(error.status):
        return True
    if error.status == 400:
        return bool(words & _BUSY)
    if error.status == 424:  # what Bedrock says where the model behind it failed
        return bool(words & (_BUSY | _FAILING))
    return error.status < 400 and bool(words & (_BUSY | _FAILING))


def _is_passing(status: int) -> bool:
    return status in _STATUSES or 500 <= status < 600


def _bare(word: str) -> str:
    """`overloaded_error`, `OverloadedError` and `overloaded-error` are one word."""
    return ''.join(filter(str.isalnum, word)).lower()
