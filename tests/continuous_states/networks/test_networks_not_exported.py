"""Networks that a file of ONNX cannot hold."""

from __future__ import annotations

import pytest

from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.checkpoints import export_onnx
from discrete_diffusion.cli import compose
from discrete_diffusion.domains import complete_data

pytest.importorskip("onnxruntime", reason="it runs the file")
pytest.importorskip("onnxscript", reason="it writes the file")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["algo=masked-features"], "masked"),
        (
            [
                *("algo.backbone=film-unet-tokens", "model=film_unet_tiny"),
                *("model.multipliers=[1,1]", "data=eit-levels"),
                *("data.size=16", "data.num_boundary=8"),
            ],
            "dtn",
        ),
    ],
)
def test_a_network_that_needs_more_than_tokens_is_refused(words, why, tmp_path):
    algorithm = build_algorithm(complete_data(compose("train", words)))
    with pytest.raises(ValueError, match=f"format=onnx .*x_t and sigma.*{why}"):
        export_onnx(algorithm, {}, tmp_path / "network.onnx")
    assert not (tmp_path / "network.onnx").exists()
