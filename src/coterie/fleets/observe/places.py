"""Which log, address or file belongs to which broker."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from coterie.errors import ConfigError, InputError
from coterie.fleets.observe.journalstore import checked_name
from coterie.pipeline.logfiles import rotated_from

SCHEMES = ("mqtt://", "http://", "https://", "unix://", "tcp://")


class BrokerPlace(NamedTuple):
    """A broker's name (empty: the source says it) and where it is observed."""

    node: str
    location: str

    @property
    def is_address(self) -> bool:
        return self.location.startswith(SCHEMES)


def places_of(sources: Sequence[str], named: Sequence[str], names_files: bool) -> list[BrokerPlace]:
    """`sources` name themselves, `named` are NAME=PLACE. With `names_files` a file is called after its name."""
    places = [_named(entry) for entry in named]
    for source in sources:
        if source.startswith(SCHEMES):
            places.append(BrokerPlace("", source))
        else:
            places += [BrokerPlace(_called(path) if names_files else "", str(path)) for path in _files(source)]
    if not places:
        raise ConfigError("SOURCE", "", "at least one log, folder or address, or --broker NAME=PLACE")
    taken: dict[str, str] = {}
    for place in places:
        if place.node and taken.setdefault(place.node, place.location) != place.location:
            both = f"{taken[place.node]} and {place.location}"
            raise ConfigError("SOURCE", both, f"brokers of different names; say --broker NAME={place.location}")
    return list(dict.fromkeys(places))


def named_places(places: Sequence[BrokerPlace]) -> list[BrokerPlace]:
    """Addresses without a name are called after their host and port."""
    named = []
    for place in places:
        parts = urlsplit(place.location)
        named.append(
            place if place.node else place._replace(node=checked_name(f"{parts.hostname}-{parts.port or 1883}"))
        )
    return named


def _named(entry: str) -> BrokerPlace:
    name, equals, location = entry.partition("=")
    if not equals or not location:
        raise ConfigError("--broker", entry, "NAME=PLACE, for example b1=/var/log/mosquitto/mosquitto.log")
    place = BrokerPlace(checked_name(name), location)
    if not place.is_address and not (Path(location).exists() or glob.glob(f"{glob.escape(location)}*")):
        raise InputError(location, "no such file")
    return place


def _called(path: Path) -> str:
    return checked_name(path.name.split(".")[0] or path.name.strip("."))


def _files(source: str) -> list[Path]:
    """The newest log of every broker that a file, a folder or a pattern names."""
    path = Path(source)
    if path.is_dir():
        try:
            listed = sorted(one for one in path.iterdir() if one.is_file() and not one.name.startswith("."))
        except OSError as error:
            raise InputError(source, f"cannot be read: {error.strerror}") from None
        if not listed:
            raise InputError(source, "no file in this folder")
    elif path.exists():
        return [path]
    else:
        listed = [Path(one) for one in sorted(glob.glob(source))]
        if not listed:
            raise InputError(source, "no such file, folder or address")
    logs = list(dict.fromkeys(rotated_from(one) for one in listed))
    return [one for one in logs if one.suffix == ".log"] or logs
