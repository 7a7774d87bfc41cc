"""A new network on disk: a folder for each host, the authority, the passwords, and the page."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from coterie.errors import ConfigError, InputError
from coterie.founding.authority import Identity, loaded_authority, new_authority, node_identity
from coterie.founding.hosts import Host
from coterie.founding.templates import UNIT, Founded, Ports, compose, node_toml, page
from coterie.live.config import load_config
from coterie.live.passwords import hash_password
from coterie.live.tokens import TOKEN_FILE
from coterie.model.plan import slices
from coterie.model.workload import nobody_yet
from coterie.protocol.system import System

SECRET = 0o600
PLAIN = 0o644


@dataclass(frozen=True)
class FoundingWish:
    """What an operator asks for."""

    hosts: Sequence[Host]
    network: str = "coterie"
    settings: Mapping[str, Any] = field(default_factory=dict)
    ports: Ports = field(default_factory=Ports)
    is_tls: bool = False
    users: Sequence[str] = ()
    authority: tuple[Path, Path] | None = None  # certificate and key of your own
    key: str = ""  # the network's; a new one if there is none
    token: str = ""  # of the admin interfaces; likewise
    data: str = "data"  # where a node keeps its own, on its host
    only: str = ""  # a single host's folder, where each host makes its own
    seed: int = 0


def found(wish: FoundingWish, system: System, out: Path, now: datetime | None = None) -> dict[str, str]:
    """Write it all below `out`, which must be empty, and read every configuration back; the users' passwords."""
    _check_users(wish.users)
    if wish.only and wish.only not in (names := [host.name for host in wish.hosts]):
        raise ConfigError("--only", wish.only, f"one of the hosts: {', '.join(names)}")
    parameters = system.configure(wish.settings)
    if out.exists() and any(out.iterdir()):
        raise ConfigError(
            "--out", str(out), "a folder that is empty or not there", do="choose another, or move it away"
        )
    design = system.plan(nobody_yet(len(wish.hosts), [host.zone for host in wish.hosts]), parameters, wish.seed)
    parts = {part.node: part for part in slices(design, version=1)}
    founded = Founded(
        wish.network, system.name, tuple(wish.hosts), wish.ports, wish.is_tls, tuple(wish.users), wish.data
    )
    passwords = {name: secrets.token_urlsafe(12) for name in wish.users}
    hashed = {name: hash_password(password) for name, password in passwords.items()}
    key, token = wish.key or secrets.token_hex(32), wish.token or secrets.token_hex(16)
    shared = {"network.key": f"{key}\n", TOKEN_FILE: f"{token}\n"}
    authority = _authority(wish, now or datetime.now(UTC)) if wish.is_tls else None
    settings = "".join(f"{key} = {as_toml(value)}\n" for key, value in wish.settings.items())
    for host in wish.hosts:
        if wish.only and host.name != wish.only:
            continue
        folder = out / host.name
        folder.mkdir(parents=True, mode=0o700)
        for name, text in shared.items():
            write(folder / name, text, SECRET)
        if authority is not None:
            for name, content, mode in identity_files(
                authority, node_identity(authority, host, now or datetime.now(UTC))
            ):
                write(folder / name, content, mode)
        write(folder / "slice.json", msgspec.json.encode(parts[host.node]), PLAIN)
        write(folder / "node.toml", node_toml(founded, host, hashed, settings), SECRET)
        write(folder / "coterie.service", UNIT, PLAIN)
        load_config(folder / "node.toml")  # what cannot work is found here, not on the host
    if not wish.only:
        _write_rest(out, founded, authority if wish.authority is None else None, passwords)
    return passwords


def _write_rest(out: Path, founded: Founded, authority: Identity | None, passwords: Mapping[str, str]) -> None:
    if authority is not None:
        (out / "authority").mkdir(mode=0o700)
        write(out / "authority" / "authority.pem", authority.certificate_pem, PLAIN)
        write(out / "authority" / "authority.key", authority.key_pem, SECRET)
    if passwords:
        write(out / "passwords.txt", "".join(f"{name} {word}\n" for name, word in passwords.items()), SECRET)
    write(out / "compose.yml", compose(founded), PLAIN)
    write(out / "README.md", page(founded), PLAIN)


def identity_files(authority: Identity, own: Identity) -> list[tuple[str, bytes, int]]:
    """(name, content, mode) of what a node proves itself by."""
    return [
        ("node.pem", own.certificate_pem, PLAIN),
        ("node.key", own.key_pem, SECRET),
        ("authority.pem", authority.certificate_pem, PLAIN),
    ]


def write(path: Path, content: str | bytes, mode: int) -> None:
    path.touch(mode=mode)  # a secret is never readable, not even for a moment
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def _authority(wish: FoundingWish, now: datetime) -> Identity:
    if wish.authority is None:
        return new_authority(wish.network, now)
    certificate, key = wish.authority
    for path in wish.authority:
        if not path.is_file():
            raise InputError(str(path), "there is no such file")
    try:
        return loaded_authority(certificate.read_bytes(), key.read_bytes())
    except (ValueError, TypeError) as error:
        raise InputError(str(certificate), f"cannot be used as an authority with {key}: {error}") from None


def _check_users(users: Sequence[str]) -> None:
    for name in users:
        if not name or any(letter in name for letter in "+#/:") or name.startswith("$"):
            raise ConfigError("--users", name, "names without + # / : that do not begin with $")
    if twice := next((name for name in users if list(users).count(name) > 1), ""):
        raise ConfigError("--users", twice, "every name once")


def as_toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else msgspec.json.encode(str(value)).decode()
