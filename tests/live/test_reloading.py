"""Which keys a running node takes, and which need a restart."""

from __future__ import annotations

from coterie.live.config import config_of
from coterie.live.reloading import differences, merged


def test_what_can_be_taken_is_and_the_rest_is_named() -> None:
    old = config_of({"mqtt": {"port": 1, "limits": {"queue_count_max": 5}}, "network": {"key": "secret"}})
    new = config_of({
        "node": {"log_level": "error", "name": "other"},
        "mqtt": {"port": 2, "limits": {"queue_count_max": 6}, "websocket_origins": ["https://x"]},
        "network": {"key": "changed", "accepted_keys": ["secret"]},
        "access": {"anonymous": "never", "logins": {"workers": 3}},
        "limits": {"connects_per_s": 5.0},
        "store": {"sync": "full"},
    })  # fmt: skip
    taken = merged(old, new)
    assert differences(old, taken) == [
        "node.log_level", "network.key", "network.accepted_keys", "mqtt.websocket_origins",
        "mqtt.limits.queue_count_max", "access.anonymous", "limits.connects_per_s",
    ]  # fmt: skip
    assert differences(taken, new) == ["node.name", "mqtt.port", "access.logins.workers", "store.sync"]
    assert merged(old, old) == old
    assert taken.mqtt.port == 1
    assert taken.limits.connects_per_s == 5.0


def test_values_are_not_told() -> None:
    old, new = config_of({"network": {"key": "one"}}), config_of({"network": {"key": "two"}})
    assert differences(old, new) == ["network.key"]
