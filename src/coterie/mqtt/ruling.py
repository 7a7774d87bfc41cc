"""The answer to a CONNECT."""

from __future__ import annotations

from typing import NamedTuple

from coterie.mqtt.reasons import Reason


class Ruling(NamedTuple):
    """USE_ANOTHER_SERVER and SERVER_MOVED name the server to go to, success the user."""

    reason: Reason = Reason.SUCCESS
    server_reference: str = ""
    detail: str = ""
    user: str | None = None
    until_s: float | None = None  # when the proof of it ends, in wall time
