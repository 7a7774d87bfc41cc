"""Who is no member and has the key: what it can ask for at the door, and all that it cannot."""

from __future__ import annotations

import msgspec
import pytest

from coterie.broker.commands import Remove
from coterie.broker.facts import Knocked
from coterie.broker.frames import CONTROL, MESSAGE, NEWCOMER, EndSession, FrameReader, decode_control, encode_control
from coterie.broker.members import MemberEntry, Members, pack_members
from coterie.broker.orders import AnswerDoor, Order
from coterie.broker.said import AnswerJoin, AskJoin, ListOfMembers, Said
from coterie.mqtt.packets import Publish, SubAck, Subscribe, Subscription
from coterie.mqtt.properties import Properties
from tests.broker.driving import Driven

DOOR = 77
NEW = MemberEntry(3, "three", "h", 1003, "h:1883", "", "its token")


class Gate:
    """A node alone, which is a majority, and somebody at its door."""

    def __init__(self) -> None:
        self.node = Driven()
        self.told: list[Said] = []
        self.node.on_order = self._note

    def _note(self, order: Order) -> None:
        if isinstance(order, AnswerDoor):
            assert order.door == DOOR
            self.told += [decode_control(body) for _, body in FrameReader().feed(order.data)]

    def knock(self, node: int, *frames: tuple[int, bytes], named: int = -1) -> Said | None:
        self.told.clear()
        self.node.take(Knocked(DOOR, node, list(frames), named))
        return self.told[0] if self.told else None

    def ask(self, member: MemberEntry, node: int = NEWCOMER, named: int = -1) -> str:
        """Why it is refused; empty if it is a member now."""
        asked = (CONTROL, encode_control(AskJoin(pack_members(member))))
        said = self.knock(node, asked, named=named)
        assert isinstance(said, AnswerJoin)
        assert bool(said.reason) is not bool(said.members)
        return said.reason

    @property
    def list(self) -> tuple[int, list[int]]:
        members = self.node.broker.membership.members
        return members.epoch, members.present


def test_a_join_that_is_asked_for_again_changes_nothing() -> None:
    gate = Gate()
    assert gate.ask(NEW) == ""
    assert gate.list == (1, [0, 3])
    assert gate.ask(NEW) == ""
    assert gate.list == (1, [0, 3])


def test_a_number_belongs_to_the_folder_that_has_it() -> None:
    gate = Gate()
    gate.ask(NEW)
    for token in ("another", ""):
        assert "with another data folder" in gate.ask(msgspec.structs.replace(NEW, token=token, host="thief"))
    assert "with another data folder" in gate.ask(MemberEntry(0, "zero", "thief", 1000, token="another"))
    assert gate.list == (1, [0, 3])


def test_who_was_removed_does_not_come_back() -> None:
    """Not by asking again with its own token, nor with what somebody heard it say."""
    gate = Gate()
    gate.ask(NEW)
    gate.node.command(Remove(3, True))
    gate.node.wait(2.0)
    assert gate.list == (2, [0])
    assert not gate.node.broker.may_link(3)
    assert "no number is used twice" in gate.ask(NEW)
    assert gate.list == (2, [0])


def test_one_node_does_not_ask_for_another() -> None:
    """A certificate names the node that knocks; with it nobody gets a second number."""
    gate = Gate()
    assert "asks for node 3" in gate.ask(NEW, node=4)
    assert "asks for node 3" in gate.ask(NEW, named=4)
    assert gate.list == (0, [0])
    assert gate.ask(NEW, named=3) == ""


def test_who_would_like_to_be_a_member_has_no_say_in_who_is() -> None:
    gate = Gate()
    forged = pack_members(Members(1_000, (NEW,)))
    assert gate.knock(NEWCOMER, (CONTROL, encode_control(ListOfMembers(forged)))) is None
    assert gate.list == (0, [0])


@pytest.mark.parametrize(
    "wrong",
    [{"id": -1}, {"id": 4096}, {"port": 0}, {"port": 65_536}, {"host": ""}, {"host": "h" * 300}, {"name": "n" * 300},
     {"token": "t" * 300}],
    ids=lambda wrong: f"{wrong}"[:20],
)  # fmt: skip
def test_what_cannot_be_a_node_does_not_become_one(wrong: dict[str, int | str]) -> None:
    gate = Gate()
    member = msgspec.structs.replace(NEW, **wrong)
    said = gate.knock(NEWCOMER, (CONTROL, encode_control(AskJoin(pack_members(member)))))
    assert isinstance(said, AnswerJoin)
    assert said.reason
    assert gate.list == (0, [0])


def test_nothing_else_is_heard_at_the_door() -> None:
    gate = Gate()
    node = gate.node
    lasting = {"clean_start": False, "properties": Properties(session_expiry_s=300)}
    line = node.client("c", **lasting)
    node.say(line, Subscribe(1, (Subscription("t", 1),)))
    assert isinstance(node.hear(line)[-1], SubAck)
    for frame in ((CONTROL, encode_control(EndSession("c"))), (MESSAGE, b"\x01t"), (CONTROL, b"\xff\xff"), (99, b"")):
        gate.knock(NEWCOMER, frame)
    writer = node.client("w")
    node.say(writer, Publish("t", b"x", 1, packet_id=1))
    assert [one.payload for one in node.hear(line) if isinstance(one, Publish)] == [b"x"]
    assert gate.list == (0, [0])


@pytest.mark.parametrize("body", [b"", b"\x93", bytes(40), encode_control(AskJoin(b"\x93"))[:-1] + b"\xc1"])
def test_nonsense_is_told_so(body: bytes) -> None:
    gate = Gate()
    said = gate.knock(3, (CONTROL, body))
    assert isinstance(said, AnswerJoin)
    assert said.reason
    assert gate.list == (0, [0])
