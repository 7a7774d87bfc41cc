"""A CONNECT on its way to a verdict: limits first, then what is known, then the threads that check passwords."""

from __future__ import annotations

from collections.abc import Callable

from coterie.broker.credentials import Check
from coterie.broker.settings import LimitsSection, LoginSection
from coterie.errors import InputError
from coterie.mqtt.packets import Connect
from coterie.mqtt.reasons import Reason
from coterie.mqtt.ruling import Ruling
from coterie.runtime.access import Access
from coterie.runtime.config import NodeConfig
from coterie.runtime.counts import Counts
from coterie.runtime.limits import Gate, address_of
from coterie.runtime.logins import Logins, Waiter
from coterie.runtime.passwords import read_password_file

BUSY = Ruling(Reason.SERVER_BUSY, detail="too many logins at once; try again later")
WRONG = (Reason.BAD_USER_NAME_OR_PASSWORD, Reason.NOT_AUTHORIZED)


def secrets_of(config: NodeConfig) -> tuple[dict[str, str], str]:
    """What `access` names and other files hold: the stored passwords, and the key of tokens."""
    name, jwt = config.access.password_file, config.access.jwt
    passwords: dict[str, str] = {}
    if name:
        try:
            passwords = read_password_file(config.read(name).decode())
        except ValueError as error:
            raise InputError(str(config.path(name)), str(error)) from None
    return passwords, config.read(jwt.key_file).decode("latin-1") if jwt.key_file else jwt.key


class Arriving:
    """Tells a waiter once, at once or later; a client that has gone is not told."""

    def __init__(
        self, access: Access, logins: LoginSection, limits: LimitsSection, counts: Counts, wall_s: Callable[[], float]
    ) -> None:
        self.gate = Gate(limits, wall_s())
        self.logins = Logins(logins, wall_s)
        self._access, self._counts, self._wall_s = access, counts, wall_s

    def decide(self, packet: Connect, host: str, certified: str, waiter: Waiter) -> None:
        now_s = self._wall_s()
        reason = self.gate.connect(host, now_s)
        if reason is not Reason.SUCCESS:
            self._counts.connects_limited += 1
            waiter.tell(Ruling(reason, detail="too many from your address"))
            return
        asked = self._access.ask(packet, host, certified)
        verdict = self.logins.known(asked) if isinstance(asked, Check) else asked
        if verdict is not None:
            self._tell(waiter, host, verdict)
        elif isinstance(asked, Check):
            self._check(asked, host, waiter, now_s)

    def _check(self, check: Check, host: str, waiter: Waiter, now_s: float) -> None:
        later = Waiter(waiter.is_gone, lambda verdict: self._tell(waiter, host, verdict))
        if not self.gate.may_fail(now_s) or not self.logins.ask(check, address_of(host), later):
            self._counts.logins_busy += 1
            waiter.tell(BUSY)

    def _tell(self, waiter: Waiter, host: str, verdict: Ruling) -> None:
        if verdict.reason in WRONG:
            self._counts.logins_failed += 1
            self.gate.failed(host, self._wall_s())
        waiter.tell(verdict)

    def stop(self) -> None:
        self.logins.stop()
