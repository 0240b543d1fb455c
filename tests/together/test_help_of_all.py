"""``--help`` of commands whose keys several packages have."""

from __future__ import annotations

import re

from discrete_diffusion.cli.main import main


def test_a_key_of_several_packages_says_what_it_means_for_each(capsys):
    main(["sample", "--help"])
    said = capsys.readouterr().out
    for title in ("diagrams", "dialogues", "features"):
        (own,) = re.findall(rf"^Keys for {title} alone.*?\n\s*\n", said, re.M | re.S)
        assert "\n given=" in own
    main(["compare", "--help"])
    said = capsys.readouterr().out
    for title, key in (("diagrams", "verdicts"), ("images from maps", "samples_per_condition")):
        (own,) = re.findall(rf"^Keys for {title} alone.*?\n\s*\n", said, re.M | re.S)
        assert f"eval.{key}=" in own
