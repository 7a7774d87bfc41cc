"""Telling a broker that its files have changed: a signal, or the operator's own command."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess

from coterie.errors import InputError, RunError
from coterie.fleets.fleet import BrokerFleet

COMMAND_S = 60.0


def tell(fleet: BrokerFleet, name: str, needs_restart: bool = False) -> None:
    """Make a broker read its files again; RunError if it cannot be told."""
    broker = fleet.named(name)
    if needs_restart:
        if not broker.restart:
            raise fleet.missing(fleet.key(name, "restart"), "this change is not taken up by a reload")
        _run(fleet, name, "restart", broker.restart)
    elif broker.reload:
        _run(fleet, name, "reload", broker.reload)
    elif broker.pid_file is not None:
        _hang_up(fleet, name)
    else:
        raise fleet.missing(fleet.key(name, "pid_file"), "or 'reload': how to make it read its files again")


def can_be_told(fleet: BrokerFleet, name: str, needs_restart: bool) -> str:
    """Empty, or what the fleet file lacks."""
    broker = fleet.named(name)
    if needs_restart:
        return "" if broker.restart else f"{fleet.key(name, 'restart')} is missing: this cannot be reloaded"
    if broker.reload or broker.pid_file is not None:
        return ""
    return f"{fleet.key(name, 'pid_file')} (or 'reload') is missing: how to make it read its files again"


def pid_of(fleet: BrokerFleet, name: str) -> int:
    path = fleet.named(name).pid_file
    assert path is not None
    try:
        return int(path.read_text())
    except OSError as error:
        raise InputError(str(path), f"pid file of {name}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise InputError(str(path), f"pid file of {name}: does not hold a number") from None


def _hang_up(fleet: BrokerFleet, name: str) -> None:
    pid = pid_of(fleet, name)
    try:
        os.kill(pid, signal.SIGHUP)
    except ProcessLookupError:
        raise RunError(f"{name} does not run: its pid file names process {pid}, which does not exist") from None
    except PermissionError:
        raise RunError(f"{name} cannot be told: process {pid} belongs to somebody else; use 'reload'") from None


def _run(fleet: BrokerFleet, name: str, key: str, command: str) -> None:
    try:
        done = subprocess.run(shlex.split(command), capture_output=True, text=True, timeout=COMMAND_S, check=False)
    except (OSError, ValueError) as error:
        raise RunError(f"{fleet.source}: {fleet.key(name, key)}: cannot be run: {error}") from None
    except subprocess.TimeoutExpired:
        raise RunError(f"{fleet.source}: {fleet.key(name, key)}: did not end within {COMMAND_S:g} s") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise RunError(
            f"{fleet.source}: {fleet.key(name, key)}: failed with {done.returncode}{': ' + said[-1] if said else ''}"
        )
