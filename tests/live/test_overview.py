"""A look at a node costs it little, however many channels it has, and finds what is asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from coterie.live import overview
from coterie.protocol.node import NodeState


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Any:
    names = tuple(f"site/{number}/temp" for number in range(1000))
    state = NodeState(links=(1,), parents=((names[0], 1), ("relayed", 1)), memberships=names)
    looked: list[int] = []
    plane = SimpleNamespace(state=lambda: (looked.append(1), state)[1], slice=SimpleNamespace(position=7))
    monkeypatch.setattr(overview.views, "health", lambda broker: {"node": 3, "status": "ok"})
    return SimpleNamespace(
        planes=SimpleNamespace(in_use=plane), links=SimpleNamespace(connected=[1]), setup=SimpleNamespace(node=3),
        looked=looked,
    )  # fmt: skip


def test_what_was_found_serves_for_fifty_times_as_long_as_it_took(broker: Any) -> None:
    moments = iter([0.0, 0.2, 5.0, 9.9, 10.1, 10.2])  # it took 0.2 s: it serves for 10
    one = overview.Overview(broker, lambda: next(moments))
    for _ in range(3):
        assert one.document()["channel_count"] == 1001
    assert len(broker.looked) == 1
    one.document()
    assert len(broker.looked) == 2


def test_a_document_stays_small(broker: Any) -> None:
    told = overview.Overview(broker).document()
    assert len(told["sample"]) == overview.SAMPLE
    assert told["tree_links"] == [(1, 2)]
    assert 0 < told["sampled_below"] < overview.SPACE


def test_search_covers_everything(broker: Any) -> None:
    one = overview.Overview(broker)
    assert one.find("RELAYED") == {"node": 3, "channels": [["relayed", False, 1]]}
    assert one.find("site/0/")["channels"] == [["site/0/temp", True, 1]]
    assert len(one.find("")["channels"]) == overview.FOUND_MAX
    assert [name for name, _, _ in one.find("site/99")["channels"]][:2] == ["site/99/temp", "site/990/temp"]
