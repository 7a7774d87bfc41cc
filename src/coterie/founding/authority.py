"""A small certificate authority for a network's own use: one authority, a certificate for each node.

A node's certificate names the host (so that clients can check it) and `node-<id>` (so that other nodes can).
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from coterie.founding.hosts import Host, is_number

AUTHORITY_DAYS, NODE_DAYS = 3650, 825
CLOCKS_APART = timedelta(hours=1)


@dataclass(frozen=True)
class Identity:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


def new_authority(network: str, now: datetime) -> Identity:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"{network} authority")
    only_signs = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    built = (
        _begun(name, name, key, now, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(only_signs, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Identity(built, key)


def loaded_authority(certificate: bytes, key: bytes) -> Identity:
    """One that exists: for a node that comes later, or of your own. ValueError if it is none, or not of this key."""
    found = x509.load_pem_x509_certificate(certificate)
    secret = serialization.load_pem_private_key(key, None)
    if not isinstance(secret, ec.EllipticCurvePrivateKey):
        raise ValueError("the key is not of an elliptic curve")
    if found.public_key() != secret.public_key():
        raise ValueError("the key does not belong to the certificate")
    return Identity(found, secret)


def node_identity(authority: Identity, host: Host, now: datetime) -> Identity:
    key = ec.generate_private_key(ec.SECP256R1())
    names: list[x509.GeneralName] = [x509.DNSName(f"node-{host.node}")]
    names += [x509.DNSName(name) for name in dict.fromkeys((host.name, host.address)) if not is_number(name)]
    if is_number(host.address):
        names.append(x509.IPAddress(ipaddress.ip_address(host.address)))
    signed_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.certificate.public_key())  # type: ignore[arg-type]
    built = (
        _begun(authority.certificate.subject, _name(f"node-{host.node}"), key, now, NODE_DAYS)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .add_extension(signed_by, critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    return Identity(built, key)


def _begun(
    issuer: x509.Name, subject: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now.astimezone(UTC) - CLOCKS_APART)
        .not_valid_after(now.astimezone(UTC) + timedelta(days=days))
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
