"""Who waits for a password to be checked: once, in turns, within bounds, and known afterwards."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from coterie.broker.credentials import Check
from coterie.broker.settings import LoginSection
from coterie.live.logins import LoginBook, Logins, Waiter
from coterie.mqtt.reasons import Reason
from coterie.mqtt.ruling import Ruling

RIGHT, WRONG = Ruling(user="ann"), Ruling(Reason.BAD_USER_NAME_OR_PASSWORD)


def book(**settings: Any) -> LoginBook:
    return LoginBook(LoginSection(**settings), b"s" * 32)


def waiter(told: list[Ruling] | None = None, is_gone: bool = False) -> Waiter:
    return Waiter(lambda: is_gone, ([] if told is None else told).append)


def line_up(logins: LoginBook, user: str, address: str = "a", is_gone: bool = False, secret: bytes = b"p") -> bool:
    check = Check(user, secret)
    return logins.wait(logins.key(check), check, address, waiter(is_gone=is_gone))


def test_however_many_ask_it_is_checked_once_and_then_known() -> None:
    logins = book(right_s=5.0, wrong_s=1.0)
    assert all(line_up(logins, "ann") for _ in range(100))
    assert len(logins) == 1
    following = logins.next()
    assert following is not None
    assert line_up(logins, "ann")  # while it is being checked
    assert logins.next() is None
    key = following[0]
    assert len(logins.done(key, RIGHT, 10.0)) == 101
    assert (logins.known(key, 14.9), logins.known(key, 15.0)) == (RIGHT, None)
    assert line_up(logins, "ann")
    logins.next()
    logins.done(key, WRONG, 20.0)
    assert (logins.known(key, 20.9), logins.known(key, 21.0)) == (WRONG, None)
    logins.forget()
    assert logins.known(key, 20.0) is None


def test_a_token_is_not_known_for_longer_than_it_holds() -> None:
    logins = book(right_s=300.0)
    for until_s, is_known in ((12.0, True), (10.5, False), (9.0, False)):
        assert line_up(logins, "ann")
        following = logins.next()
        assert following is not None
        logins.done(following[0], Ruling(user="ann", until_s=until_s), 10.0)
        assert (logins.known(following[0], 11.0) is not None) == is_known
        logins.forget()


def test_names_and_passwords_do_not_run_into_each_other() -> None:
    logins = book()
    assert logins.key(Check("ab", b"c")) != logins.key(Check("a", b"bc"))
    assert logins.key(Check("ab", b"c")) != LoginBook(LoginSection(), b"t" * 32).key(Check("ab", b"c"))


def test_addresses_take_turns() -> None:
    logins = book()
    for number in range(3):
        line_up(logins, f"many{number}", "loud")
    line_up(logins, "ann", "quiet")
    found = [logins.next() for _ in range(4)]
    assert [one and one[1].user for one in found] == ["many0", "ann", "many1", "many2"]


def test_the_line_is_bounded_and_leaves_out_who_has_gone() -> None:
    logins = book(queue_max=3, queue_address_max=2)
    assert [line_up(logins, f"u{n}", "loud", is_gone=True) for n in range(3)] == [True, True, False]
    assert line_up(logins, "u0", "loud", is_gone=True)  # waits for the same answer: no new place
    assert line_up(logins, "ann", "quiet")
    assert not line_up(logins, "bob", "another")
    following = logins.next()
    assert following is not None
    assert following[1].user == "ann"
    assert logins.next() is None
    assert len(logins) == 0
    assert line_up(logins, "u0", "loud")


def test_threads_check_and_the_loop_is_told() -> None:
    def answer(check: Check) -> Ruling:
        seen.append(threading.current_thread() is threading.main_thread())
        return RIGHT

    seen: list[bool] = []
    told: list[Ruling] = []

    async def main() -> None:
        logins = Logins(LoginSection(workers=2), lambda: 0.0, answer)
        check = Check("ann", b"p")
        for _ in range(50):
            assert logins.ask(check, "a", waiter(told))
        while len(told) < 50:
            await asyncio.sleep(0.001)
        assert (logins.checked_count, logins.known(check), logins.known_count) == (1, RIGHT, 1)
        assert logins.ask(Check("bob", b"p"), "a", waiter(told))
        logins.forget()  # users have changed meanwhile: what was found out does not count
        while len(told) < 51:
            await asyncio.sleep(0.001)
        assert told[-1].reason is Reason.SERVER_BUSY
        assert logins.known(Check("bob", b"p")) is None
        logins.stop()

    asyncio.run(main())
    assert seen == [False, False]
