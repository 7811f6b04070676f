"""SCRAM-SHA-256: the verifier of a password, so that no password is stored."""

from __future__ import annotations

from scramp import ScramMechanism

from .directory import Credential


def credential(password: str) -> Credential:
    """The verifier of a password, with a salt of its own."""
    salt, stored, server, iterations = ScramMechanism().make_auth_info(password)
    return Credential(salt, iterations, stored, server)
