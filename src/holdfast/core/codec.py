"""Values to JSON and back, in one compact form for the ledger.

It uses the C parts of the standard library's json directly where they exist: importing the
package would cost every hook as much as a whole transaction.
"""

from __future__ import annotations

from holdfast.core.model import Grant, Holder, Request, Ticket, Witness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from holdfast.core.model import Event


def _no_default(value: object) -> str:
    raise TypeError(f"{type(value).__name__} cannot be written to the ledger")


try:
    import _json

    class _Context:
        strict = True
        object_hook = None
        object_pairs_hook = None
        parse_float = float
        parse_int = int
        parse_constant = float

    _scan = _json.make_scanner(_Context())  # type: ignore[arg-type]
    _encode = _json.make_encoder(
        None, _no_default, _json.encode_basestring, None, ":", ",", False, False, True
    )

    quoted = _json.encode_basestring

    def dumps(value: Any) -> str:
        """The value as compact JSON."""
        return "".join(_encode(value, 0))

    def loads(text: str) -> Any:
        """The value of a text that `dumps` wrote. Raises ValueError for anything else."""
        try:
            value, end = _scan(text, 0)
        # Without the package, the C part cannot describe the problem: SystemError.
        except (StopIteration, SystemError):
            raise ValueError("not JSON") from None
        if end != len(text):
            raise ValueError("not JSON")
        return value

except ImportError:  # another Python than CPython
    import json

    def quoted(text: str) -> str:
        """The text as a JSON string."""
        return json.dumps(text, ensure_ascii=False)

    def dumps(value: Any) -> str:
        """The value as compact JSON."""
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_no_default)

    def loads(text: str) -> Any:
        """The value of a text that `dumps` wrote. Raises ValueError for anything else."""
        return json.loads(text)


def witness_to_list(witness: Witness | None) -> list[Any] | None:
    """Host, boot, namespace, pid, start."""
    if witness is None:
        return None
    return [witness.host, witness.boot, witness.namespace, witness.pid, witness.start]


def witness_from_list(fields: list[Any] | None) -> Witness | None:
    """The witness that `witness_to_list` wrote."""
    if fields is None:
        return None
    host, boot, namespace, pid, start = fields
    return Witness(host=host, boot=boot, namespace=namespace, pid=pid, start=start)


def holder_to_dict(holder: Holder) -> dict[str, Any]:
    """The holder as plain data, without empty fields."""
    found: dict[str, Any] = {"id": holder.id}
    if holder.key != holder.id:
        found["key"] = holder.key
    if holder.witness is not None:
        found["witness"] = witness_to_list(holder.witness)
    if holder.marks:
        found["marks"] = list(holder.marks)
    for name in ("user", "client", "session", "agent", "parent"):
        value = getattr(holder, name)
        if value:
            found[name] = value
    return found


def holder_from_dict(fields: Mapping[str, Any]) -> Holder:
    """The holder that `holder_to_dict` wrote."""
    rest = {name: fields[name] for name in fields if name not in ("witness", "marks")}
    return Holder(
        witness=witness_from_list(fields.get("witness")),
        marks=tuple(fields.get("marks", ())),
        **rest,
    )


def grant_to_dict(grant: Grant) -> dict[str, Any]:
    """All of a grant, as plain data."""
    fields = {name: getattr(grant, name) for name in Grant.__slots__}
    return {**fields, "holder": holder_to_dict(grant.holder)}


def grant_from_dict(fields: Mapping[str, Any]) -> Grant:
    """The grant that `grant_to_dict` wrote."""
    lists = {name: tuple(fields[name]) for name in ("keys", "paths")}
    return Grant(**{**fields, **lists, "holder": holder_from_dict(fields["holder"])})


def paths_of(keys: tuple[str, ...]) -> tuple[str, ...]:
    """The default paths of keys: each key itself, and for a file's inode the path before it."""
    if len(keys) == 1:
        return keys
    if len(keys) == 2 and keys[1].startswith("inode:"):
        return (keys[0], keys[0])
    paths: list[str] = []
    for key in keys:
        paths.append(paths[-1] if paths and key.startswith("inode:") else key)
    return tuple(paths)


def spelled(type: str, grant: Grant, more: Mapping[str, Any]) -> dict[str, Any]:
    """The data of an event about a grant: the whole grant when it begins, its id when it ends."""
    if type != "lock_acquired":
        paths = tuple(dict.fromkeys(grant.paths))
        return {
            "grant": grant.id, "holder": grant.holder.id, "token": grant.token, "paths": paths,
            **more,
        }  # fmt: skip
    found: dict[str, Any] = {
        "id": grant.id,
        "holder": holder_to_dict(grant.holder),
        "keys": grant.keys,
        "modes": grant.modes,
        "token": grant.token,
        "ttl": grant.ttl,
    }
    if grant.ttl is None and grant.expires_at is not None:
        found["lease"] = grant.expires_at - grant.acquired_at
    if grant.paths != paths_of(grant.keys):
        found["paths"] = grant.paths
    if grant.slept:
        found["slept"] = grant.slept
    if grant.reason:
        found["reason"] = grant.reason
    if grant.stamp:
        found["stamp"] = grant.stamp
    if more:
        found.update(more)
    return found


def written(event: Event) -> str:
    """The data of an event as JSON. The two commonest types are formatted directly, because
    building them from dictionaries costs as much as writing them to disk."""
    grant = event.subject
    if grant is None or event._data:
        return dumps(event.data)
    holder = grant.holder
    if event.type != "lock_acquired":
        return (
            f'{{"grant":{quoted(grant.id)},"holder":{quoted(holder.id)},'
            f'"token":{grant.token},"paths":{_listed(tuple(dict.fromkeys(grant.paths)))}}}'
        )
    if holder._json is None:
        holder._json = dumps(holder_to_dict(holder))
    keys, ttl = grant.keys, grant.ttl
    rest = ""
    if ttl is None and grant.expires_at is not None:
        rest = f',"lease":{grant.expires_at - grant.acquired_at}'
    if grant.paths != paths_of(keys):
        rest = f'{rest},"paths":{_listed(grant.paths)}'
    if grant.slept:
        rest = f'{rest},"slept":{grant.slept}'
    if grant.reason:
        rest = f'{rest},"reason":{quoted(grant.reason)}'
    if grant.stamp:
        rest = f'{rest},"stamp":{quoted(grant.stamp)}'
    return (
        f'{{"id":{quoted(grant.id)},"holder":{holder._json},"keys":{_listed(keys)},'
        f'"modes":"{grant.modes}","token":{grant.token},'
        f'"ttl":{"null" if ttl is None else ttl}{rest}}}'
    )


_lists: dict[tuple[str, ...], str] = {}
LISTS_MAX = 1024
#: Longer lists are not cached: they would take too much memory.
LISTED_MAX = 64


def _listed(texts: tuple[str, ...]) -> str:
    """Texts as a JSON list, cached: a holder releases the same files that it acquired."""
    if len(texts) > LISTED_MAX:
        return f"[{','.join(map(quoted, texts))}]"
    known = _lists.get(texts)
    if known is None:
        if len(_lists) >= LISTS_MAX:
            _lists.clear()
        known = _lists[texts] = f"[{','.join(map(quoted, texts))}]"
    return known


def grant_of(event: Event) -> Grant:
    """The grant that a `lock_acquired` event is about."""
    if event.subject is not None:
        return event.subject
    data, at = event.data, event.at
    keys, ttl = tuple(data["keys"]), data["ttl"]
    length = data.get("lease") if ttl is None else ttl
    return Grant(
        id=data["id"],
        holder=holder_from_dict(data["holder"]),
        keys=keys,
        modes=data["modes"],
        paths=tuple(data["paths"]) if "paths" in data else paths_of(keys),
        token=data["token"],
        acquired_at=at,
        ttl=ttl,
        expires_at=None if length is None else at + length,
        slept=data.get("slept", 0),
        reason=data.get("reason", ""),
        stamp=data.get("stamp", ""),
    )


def request_to_dict(request: Request) -> dict[str, Any]:
    """The whole request."""
    found = {
        "id": request.id,
        "holder": holder_to_dict(request.holder),
        "keys": request.keys,
        "modes": request.modes,
        "paths": request.paths,
        "silent": request.silent,
        "ttl": request.ttl,
        "reason": request.reason,
        "priority": request.priority,
        "patience": request.patience,
        "waiter": witness_to_list(request.waiter),
        "wake": request.wake,
        "grace": request.grace,
    }
    if request.stamp:
        found["stamp"] = request.stamp
    return found


def ticket_of(event: Event, *, reserved: bool = False) -> Ticket:
    """The ticket that a `ticket_added` event is about."""
    data = event.data
    plain = ("id", "modes", "ttl", "reason", "priority", "wake", "grace")
    request = Request(
        holder=holder_from_dict(data["holder"]),
        keys=tuple(data["keys"]),
        paths=tuple(data["paths"]),
        silent=tuple(data["silent"]),
        patience=data["patience"],
        waiter=witness_from_list(data["waiter"]),
        stamp=data.get("stamp", ""),
        **{name: data[name] for name in plain},
    )
    return Ticket(request=request, added_at=event.at, arrival=event.seq, reserved=reserved)
