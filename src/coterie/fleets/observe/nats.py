"""NATS servers by their monitoring port: wishes as they are, publications estimated.

Subjects become MQTT topics: dots become slashes, `*` becomes `+`, `>` becomes `#`, a queue group becomes
`$share/GROUP/`; characters of a token that MQTT would misread (`/ + # %`) are written like %2F.

A server says how many messages a client sent, never on which subjects. So what each client sent since the last poll is
spread over the subjects that somebody names without wildcards, by how many messages their subscribers got meanwhile.
Such lines carry `"estimated": true`.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from coterie.errors import InputError
from coterie.fleets.observe.gathering import Gathering, PublishedMessages, snapshot
from coterie.fleets.observe.journalstore import BrokerState, ObserveState, checked_name

PAGE = 1024
ANSWER_S = 10.0
INTERNAL = ("$", "_INBOX", "_R_", "_GR_")  # the server's own, and answers to requests
LINK_COUNTERS = ("in_msgs", "out_msgs", "in_bytes", "out_bytes")


class ServerPoll(NamedTuple):
    """What one server said at one moment."""

    node: str
    t_us: int
    connections: list[dict[str, Any]]
    links: dict[str, float]


def topic_of(subject: str) -> str:
    """A subject as an MQTT topic or filter."""
    levels = {"*": "+", ">": "#"}
    return "/".join(levels.get(token) or _spelled(token) for token in subject.split("."))


def _spelled(token: str) -> str:
    return token.replace("%", "%25").replace("/", "%2F").replace("+", "%2B").replace("#", "%23")


def is_internal(subject: str) -> bool:
    return subject.startswith(INTERNAL)


def ask_server(address: str, node: str) -> ServerPoll:
    """A poll of one server over HTTP."""
    varz = _get(f"{address}/varz")
    connections: list[dict[str, Any]] = []
    while True:
        page = _get(f"{address}/connz?subs=detail&limit={PAGE}&offset={len(connections)}")
        connections += page.get("connections") or []
        if len(connections) >= page.get("total", 0) or not page.get("connections"):
            break
    routes = _get(f"{address}/routez").get("routes") or []
    leafs = _get(f"{address}/leafz").get("leafs") or []
    return ServerPoll(node or _node(varz), _moment(str(varz["now"])), connections, _links(varz, routes, leafs))


def read_saved(path: str, node: str) -> ServerPoll:
    """A poll that somebody saved: the answer of /connz?subs=detail in a file."""
    try:
        connz = json.loads(Path(path).read_bytes())
        connections, now = connz["connections"], _moment(str(connz["now"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(path, f"is no answer of /connz?subs=detail: {type(error).__name__} {error}") from None
    return ServerPoll(node or _node(connz, Path(path).stem), now, connections or [], {})


def _node(answer: Mapping[str, Any], other: str = "") -> str:
    return checked_name(str(answer.get("server_name") or other or answer["server_id"]))


def _links(varz: Mapping[str, Any], routes: Sequence[Any], leafs: Sequence[Any]) -> dict[str, float]:
    links = {"routes": float(len(routes)), "leafs": float(len(leafs))}
    for name in LINK_COUNTERS:
        links[name] = float(varz.get(name, 0))
        links[f"route_{name}"] = float(sum(route.get(name, 0) for route in routes))
        links[f"leaf_{name}"] = float(sum(leaf.get(name, 0) for leaf in leafs))
    return links


def _get(url: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_S) as answer:
            found = json.loads(answer.read())
    except (urllib.error.URLError, OSError) as error:
        raise InputError(url, f"no monitoring port of NATS answers: {getattr(error, 'reason', error)}") from None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InputError(url, "the answer is no JSON object; is this the monitoring port of NATS?")
    return found


def _moment(text: str) -> int:
    """RFC 3339 with any number of digits -> microseconds."""
    head, _, tail = text.rstrip("Z").partition(".")
    digits = tail[:6].ljust(6, "0") if tail[:6].isdigit() else "000000"
    return round(datetime.fromisoformat(f"{head}+00:00").timestamp()) * 1_000_000 + int(digits)


def take_in(polls: Sequence[ServerPoll], state: ObserveState, into: Gathering) -> None:
    """Polls of all servers at about one moment: wishes by server, publications over all of them."""
    got: Counter[str] = Counter()
    sent: list[tuple[ServerPoll, str, int, int]] = []
    for poll in polls:
        broker = state.broker(poll.node)
        clients = _clients(poll, into)
        wanted = {name: [wish for wish in map(_wish, _subscriptions(one)) if wish] for name, one in clients.items()}
        into.sightings += snapshot(poll.node, poll.t_us, wanted, broker.sessions)
        if poll.links:
            into.counters.append((poll.node, poll.t_us, poll.links))
        _count(poll, clients, broker, got, sent)
    _estimate(got, sent, into)


def _clients(poll: ServerPoll, into: Gathering) -> dict[str, dict[str, Any]]:
    """Connections by the client's name; those of other servers are left out."""
    account = into.account(poll.node)
    people = [one for one in poll.connections if one.get("kind", "Client") == "Client"]
    account.add("bridges", len(poll.connections) - len(people))
    account.add("connections", len(people))
    names = Counter(_name(one, poll.node) for one in people)
    named = {}
    for one in people:
        name = _name(one, poll.node)
        named[name if names[name] == 1 else f"{name}#{one.get('cid')}"] = one
        listed = _subscriptions(one)
        internal = sum(is_internal(str(entry.get("subject", ""))) for entry in listed)
        account.add("own topics", internal)
        account.add("subscriptions", len(listed) - internal)
    return named


def _name(connection: Mapping[str, Any], node: str) -> str:
    return str(connection.get("mqtt_client") or connection.get("name") or f"{node}:{connection.get('cid')}")


def _subscriptions(connection: Mapping[str, Any]) -> list[dict[str, Any]]:
    return connection.get("subscriptions_list_detail") or []


def _wish(entry: Mapping[str, Any]) -> str:
    subject = str(entry.get("subject", ""))
    if not subject or is_internal(subject):
        return ""
    group = entry.get("qgroup")
    return f"$share/{_spelled(str(group))}/{topic_of(subject)}" if group else topic_of(subject)


def _count(
    poll: ServerPoll,
    clients: Mapping[str, Mapping[str, Any]],
    broker: BrokerState,
    got: Counter[str],
    sent: list[tuple[ServerPoll, str, int, int]],
) -> None:
    """What was sent and received since the last poll; the first poll only sets the marks."""
    before, marks = broker.totals, {"": [1]}
    for name, connection in clients.items():
        key = f"{connection.get('cid')}@{connection.get('start', '')}"
        marks[key] = [int(connection.get("in_msgs", 0)), int(connection.get("in_bytes", 0))]
        old = before.get(key, [0, 0])
        messages, size = marks[key][0] - old[0], marks[key][1] - old[1]
        if before and messages > 0:
            sent.append((poll, name, messages, size))
        shared: Counter[str] = Counter()
        for entry in _subscriptions(connection):
            subject, mark = str(entry.get("subject", "")), f"{key}/{entry.get('sid')}"
            marks[mark] = [int(entry.get("msgs", 0))]
            fresh = marks[mark][0] - before.get(mark, [0])[0] if before else 0
            if fresh > 0 and not is_internal(subject) and "*" not in subject and ">" not in subject:
                shared[subject] = max(shared[subject], fresh)
        for subject, count in shared.items():
            got[subject] = max(got[subject], count)
    broker.totals = marks


def _estimate(got: Counter[str], sent: Sequence[tuple[ServerPoll, str, int, int]], into: Gathering) -> None:
    """Spread what each client sent over the subjects; the parts add up to the whole."""
    subjects, whole = sorted(got), sum(got.values())
    for poll, client, messages, size in sent:
        account = into.account(poll.node)
        if not whole:
            account.note("messages were sent on subjects that nobody names without wildcards; they are not counted")
            continue
        account.note("publications are estimated: NATS does not say who publishes on which subject")
        exact = [messages * got[subject] / whole for subject in subjects]
        parts = [int(part) for part in exact]
        order = sorted(range(len(exact)), key=lambda at: (parts[at] - exact[at], subjects[at]))
        for at in order[: messages - sum(parts)]:
            parts[at] += 1
        for subject, count in zip(subjects, parts, strict=True):
            if count:
                one = PublishedMessages(poll.node, poll.t_us, client, topic_of(subject), round(size / messages), True)
                into.publications[one] += count
                account.add("publications", count)
