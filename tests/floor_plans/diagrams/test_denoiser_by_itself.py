"""What the guide to backbones does with our own network runs as it stands."""

from __future__ import annotations

from guide_code import run_python


def test_the_page_uses_a_denoiser_by_itself():
    assert run_python("add_a_backbone.md", word="BDDenoiser")["node_logits"].abs().sum() == 0
