"""Address at which the studio listens."""

from __future__ import annotations

LOCAL = ("127.0.0.1", "localhost", "::1")
"""Hosts that only this machine reaches."""


def url(host: str, port: int) -> str:
    """URL, such as ``http://127.0.0.1:8765/``."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"
