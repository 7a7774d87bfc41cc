"""Certificates that TLS accepts for the host and the node they name, and for no other."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import pytest

from coterie.founding.authority import Identity, loaded_authority, new_authority, node_identity
from coterie.founding.hosts import Host

NOW = datetime.now(UTC)


def handshake(tmp_path, own: Identity, authority: Identity, name: str) -> None:
    """Both ends in memory; raises what the client finds wrong."""
    for file, content in (("own.pem", own.certificate_pem + own.key_pem), ("ca.pem", authority.certificate_pem)):
        (tmp_path / file).write_bytes(content)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "own.pem")
    client = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(to_client, to_server, server_hostname=name)
    there = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(10):
        done = 0
        for side in (here, there):
            try:
                side.do_handshake()
                done += 1
            except ssl.SSLWantReadError:
                pass
        if done == 2:
            return
    raise AssertionError("no end to it")


@pytest.mark.parametrize("name", ["b.example.org", "10.0.0.2", "node-1"])
def test_a_node_is_who_its_certificate_says(tmp_path, name):
    authority = new_authority("coterie", NOW)
    handshake(tmp_path, node_identity(authority, Host(1, "b.example.org", "10.0.0.2"), NOW), authority, name)


@pytest.mark.parametrize("name", ["node-2", "10.0.0.3", "c.example.org"])
def test_and_nobody_else(tmp_path, name):
    authority = new_authority("coterie", NOW)
    own = node_identity(authority, Host(1, "b.example.org", "10.0.0.2"), NOW)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tmp_path, own, authority, name)


def test_another_authority_or_one_that_is_over_is_refused(tmp_path):
    own = node_identity(new_authority("coterie", NOW), Host(0, "a", "a"), NOW)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tmp_path, own, new_authority("coterie", NOW), "a")
    old = new_authority("coterie", NOW - timedelta(days=4000))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tmp_path, node_identity(old, Host(0, "a", "a"), NOW), old, "a")


def test_an_authority_is_kept_with_its_own_key():
    one, other = new_authority("coterie", NOW), new_authority("coterie", NOW)
    assert loaded_authority(one.certificate_pem, one.key_pem).certificate == one.certificate
    with pytest.raises(ValueError, match="does not belong"):
        loaded_authority(one.certificate_pem, other.key_pem)
