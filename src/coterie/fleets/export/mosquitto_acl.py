"""A star of mosquitto bridges, pruned by the hub's access list; applied by a reload, bridges stay up.

Every spoke dials the hub with `topic # both` under a user name of its own. What the hub sends a spoke is what the list
lets that user read: one line per wanted filter. The way up cannot be pruned (a bridge's own side asks no list).
Never `topic deny`: it makes mosquitto drop the bridge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise

from coterie.errors import InputError
from coterie.fleets.export import haproxy
from coterie.fleets.export.target import LinkShape, Mover, Piece, Remark, Target
from coterie.fleets.fleet import BrokerFleet, host_port
from coterie.fleets.layout import Filters, FleetLayout
from coterie.fleets.probing import Way
from coterie.mqtt.topics import split_shared

BEGIN = "# >>> coterie: lines between these two marks are made by `coterie export`; others stay as they are"
END = "# <<< coterie"


def hub_of(fleet: BrokerFleet) -> str:
    if not fleet.hub:
        raise fleet.missing("hub", "a star needs the name of the broker in the middle")
    return fleet.hub


def spokes(fleet: BrokerFleet) -> list[str]:
    hub = hub_of(fleet)
    return [one.name for one in fleet.broker if one.name != hub]


def reads(fleet: BrokerFleet, wanted: FleetLayout) -> dict[str, tuple[str, ...]]:
    """User of a bridge -> what it may read."""
    found = {}
    for spoke in spokes(fleet):
        some = {*wanted.filters[spoke], *fleet.limits.prefixes}
        found[fleet.named(spoke).bridge_name] = tuple(sorted(some))
    return found


def block(reads: Mapping[str, Iterable[str]], probe: str) -> str:
    """Our part of the access list. The probe's topic holds a digest of it: who receives it has this very list."""
    lines = []
    for user, filters in sorted(reads.items()):
        lines += [f"user {user}", "topic write #", *(f"topic read {one}" for one in sorted(set(filters))), ""]
    digest = blake2b("\n".join(lines).encode(), digest_size=6).hexdigest()
    for user in sorted(reads, reverse=True):
        lines.insert(lines.index(f"user {user}") + 2, f"topic read {probe}/{digest}/{user}")
    return "\n".join([BEGIN, *lines[:-1], END, ""]) if lines else f"{BEGIN}\n{END}\n"


def plain(filters: Iterable[str]) -> tuple[str, ...]:
    """Filters as the hub sees them: a shared one is the filter that is shared."""
    return tuple(split_shared(one)[1] for one in filters)


def in_block(text: str, probe: str, source: str = "acl") -> dict[str, tuple[str, ...]] | None:
    """User -> filters of our part of a list, without the probe's; None: there is no part of ours."""
    if BEGIN not in text:
        return None
    mine = text.partition(BEGIN)[2].partition(END)[0]
    found: dict[str, list[str]] = {}
    user = ""
    for line in mine.splitlines():
        if line.startswith("user "):
            user = line.removeprefix("user ")
            found[user] = []
        elif line.startswith("topic read ") and not line.startswith(f"topic read {probe}/"):
            if not user:
                raise InputError(source, "is damaged: our part of it begins without a user")
            found[user].append(line.removeprefix("topic read "))
    return {user: tuple(filters) for user, filters in found.items()}


def probe_topic(text: str, probe: str, user: str) -> str | None:
    """The topic that only a hub with this list passes to this bridge."""
    mine = text.partition(BEGIN)[2].partition(END)[0]
    prefix = f"topic read {probe}/"
    for line in mine.splitlines():
        if line.startswith(prefix) and line.endswith(f"/{user}"):
            return line.removeprefix("topic read ")
    return None


def ways(fleet: BrokerFleet) -> list[Way]:
    """Down to each spoke a topic that only the list in force lets pass, up to the hub any."""
    hub, probe = fleet.named(hub_of(fleet)), fleet.probe.topic
    text = hub.acl.read_text() if hub.acl is not None and hub.acl.is_file() else ""
    found = []
    for spoke in spokes(fleet):
        down = probe_topic(text, probe, fleet.named(spoke).bridge_name) or f"{probe}/down/{spoke}"
        found += [Way(hub.name, spoke, down), Way(spoke, hub.name, f"{probe}/up/{spoke}")]
    return found


def outside(text: str) -> str:
    """Somebody else's part of a list."""
    before, begin, rest = text.partition(BEGIN)
    return before + rest.partition(END)[2].removeprefix("\n") if begin else text


def base(fleet: BrokerFleet) -> str:
    """A list for a hub that had none, where everybody could do everything: they still may."""
    lines = ["topic readwrite #", "topic read $SYS/#", ""]
    for user in fleet.hub_users:
        lines += [f"user {user}", "topic readwrite #", "topic read $SYS/#", ""]
    return "\n".join(lines)


def pieces(fleet: BrokerFleet, wanted: FleetLayout) -> list[Piece]:
    hub = fleet.named(hub_of(fleet))
    if hub.acl is None:
        raise fleet.missing(fleet.key(hub.name, "acl"), "the hub's acl_file is what the plan is written to")
    there = hub.acl.read_text() if hub.acl.is_file() else base(fleet)
    text = outside(there).rstrip("\n") + "\n" + block(reads(fleet, wanted), fleet.probe.topic)
    made = [Piece("mosquitto-acl/hub.acl", text, hub.acl, hub.name)]
    host, port = host_port(hub.link_address)
    names = spokes(fleet)
    open_to_all = block(dict.fromkeys((fleet.named(one).bridge_name for one in names), ("#",)), fleet.probe.topic)
    made.append(Piece("mosquitto-acl/first.acl", f"{base(fleet)}{open_to_all}"))
    return made + [Piece(f"mosquitto-acl/bridges/{one}.conf", bridge(fleet, one, host, port)) for one in names]


def bridge(fleet: BrokerFleet, spoke: str, host: str, port: int) -> str:
    name = fleet.named(spoke).bridge_name
    return f"""\
# The bridge of {spoke} to the hub, for a fleet that has no star yet: include it once and restart {spoke}.
connection {name}
address {host}:{port}
remote_clientid {name}
remote_username {name}
topic # both 1
cleansession false
try_private true
notifications false
restart_timeout 1 5
"""


def merge(piece: Piece, old: str) -> str:
    """Both lists: who may read by the one or the other. A hub that was not pruned before stays so until the end."""
    probe = _probe_of(piece.text)
    new, before = in_block(piece.text, probe), in_block(old, probe)
    if new is None or before is None:
        users = new or before or {}
        return outside(piece.text) + block(dict.fromkeys(users, ("#",)), probe)
    both = {user: (*new.get(user, ()), *before.get(user, ())) for user in sorted({*new, *before})}
    return outside(piece.text) + block(both, probe)


def _probe_of(text: str) -> str:
    """The topic below which probes are, from a list of ours."""
    mine = text.partition(BEGIN)[2].partition(END)[0]
    lines = mine.strip("\n").splitlines()
    for above, line in pairwise(lines):
        if above == "topic write #" and line.startswith("topic read "):
            return line.removeprefix("topic read ").rsplit("/", 2)[0]
    return "coterie/probe"


def check(fleet: BrokerFleet, wanted: FleetLayout) -> Sequence[Remark]:
    remarks = haproxy.needed(fleet)
    hub = fleet.named(hub_of(fleet))
    if hub.acl is None:
        return [Remark(f"{fleet.key(hub.name, 'acl')} is missing: the hub's acl_file", True)]
    if not hub.pid_file and not hub.reload:
        remarks.append(
            Remark(f"{fleet.key(hub.name, 'pid_file')} (or 'reload') is missing: how to reload the hub", True)
        )
    if wanted.hub not in ("", hub.name):
        again = f"`coterie plan ... --for mosquitto-acl --fleet {fleet.source}` plans around {hub.name}"
        remarks.append(Remark(f"the plan's hub is {wanted.hub}, the fleet's is {hub.name}, and copies differ: {again}"))
    there = outside(hub.acl.read_text()) if hub.acl.is_file() else ""
    if any(line.split()[:1] == ["pattern"] for line in there.splitlines()):
        remarks.append(
            Remark(f"{hub.acl} has a pattern line: it applies to bridges too and may let everything through")
        )
    for spoke in spokes(fleet):
        user = fleet.named(spoke).bridge_name
        if f"user {user}" in there.splitlines():
            remarks.append(Remark(f"{hub.acl} has lines for user {user} outside of coterie's part: they are added up"))
        bad = [one for one in wanted.filters[spoke] if "\n" in one or "\0" in one or one != one.strip()]
        remarks += [Remark(f"filter {one!r} of {spoke} cannot be written in an access list", True) for one in bad]
        if "#" in wanted.filters[spoke]:
            remarks.append(Remark(f"a client of {spoke} wants '#': everything goes there whatever the plan says"))
    if fleet.balancer is not None and fleet.balancer.unknown == "hash":
        remarks.append(
            Remark("until a new client is admitted, it is served at the hub only: set balancer.unknown = 'hub'")
        )
    covered = Filters(one for filters in reads(fleet, wanted).values() for one in filters)
    nobody = [topic for topic in wanted.known_topics if not covered.match(topic) and not wanted.wants(fleet.hub, topic)]
    if nobody:
        remarks.append(Remark(f"{len(nobody)} topics are wanted nowhere and end at the hub, {nobody[0]!r} for one"))
    return remarks


TARGET = Target(
    name="mosquitto-acl",
    says="a star of mosquitto bridges, pruned by the hub's access list, without a restart",
    shape=LinkShape.STAR,
    pieces=pieces,
    moves=Mover.BALANCER,
    merge=merge,
    check=check,
    ways=ways,
)
