"""`coterie reload`: have running nodes read their configuration again."""

from __future__ import annotations

from coterie.cli.adminclient import NetworkOptions
from coterie.cli.choices import Json
from coterie.cli.console import err, out, print_json
from coterie.errors import CoterieError, RunError
from coterie.plans.admin import ask


def reload_command(network: NetworkOptions, as_json: Json = False) -> None:
    """Make nodes read their configuration again.

    Users, permissions, limits, certificates, keys and the log level are taken at once, as with SIGHUP. Clients that
    lost a right that they use are told to connect again. If a change needs a restart, the answer says so.

    Examples:
      coterie reload --nodes 3 --base-port 1883
    """
    found: dict[str, dict[str, list[str]] | str] = {}
    for place in network.places:
        name = f"{place[0]}:{place[1]}"
        try:
            answer = ask(*place, "/reload", network.secret, "POST")
            found[name] = "no node answers" if answer is None else answer
        except CoterieError as error:
            found[name] = str(error)
    if as_json:
        print_json({"nodes": found})
    for name, said in found.items():
        if isinstance(said, str):
            err.print(f"{name}: {said}")
        elif not as_json:
            rest = f"; restart it for {', '.join(said['needs_restart'])}" if said["needs_restart"] else ""
            out.print(f"{name}: changed {', '.join(said['taken']) or 'nothing'}{rest}")
    if failed := sum(isinstance(said, str) for said in found.values()):
        raise RunError(f"{failed} of {len(found)} nodes did not take their configuration")
