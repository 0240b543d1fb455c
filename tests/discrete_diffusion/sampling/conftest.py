"""Fixtures of the tests of samplers."""

from __future__ import annotations

import pytest

from discrete_diffusion.sampling import tokens


@pytest.fixture
def each_by_itself(monkeypatch) -> None:
    """The network is asked about every sample, also about those that are all alike."""
    monkeypatch.setattr(tokens, "are_alike", lambda *of: False)
