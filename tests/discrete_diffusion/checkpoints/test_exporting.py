"""An exported network gives the logits of the one that it was made of, for any batch."""

from __future__ import annotations

import json
import logging

import pytest
import torch

from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.checkpoints.sharing import TOLERANCE, export_onnx
from discrete_diffusion.cli import compose
from discrete_diffusion.domains import complete_data

onnxruntime = pytest.importorskip("onnxruntime", reason="it runs the file")
pytest.importorskip("onnxscript", reason="it writes the file")

NETWORKS = {
    "bd-denoiser": ["algo.backbone=bd-denoiser", "model=bd_tiny"],
    "graph features": [
        *("algo.backbone=bd-denoiser-pair", "model=bd_pair_tiny"),
        "model.features=[reach,resistance,walks,cycles]",
    ],
    "dit": ["algo.backbone=dit", "model=dit_tiny"],
    "not told the time": ["algo.backbone=dit", "model=dit_tiny", "algo.time_conditioning=false"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_the_logits_are_the_same(name, tmp_path):
    torch.manual_seed(0)
    algorithm = build_algorithm(compose("train", [*NETWORKS[name], "data=bubble_diagrams"])).eval()
    for value in algorithm.parameters():  # heads start at zero
        torch.nn.init.normal_(value, std=0.1)
    path = tmp_path / "network.onnx"
    assert export_onnx(algorithm, {"tokens": ["a"]}, path) < TOLERANCE
    session = onnxruntime.InferenceSession(str(path))
    layout = algorithm.layout
    x_t = layout.support.int().argmax(dim=-1).expand(5, -1).clone()
    x_t[0], x_t[1:, ::3] = layout.mask_id, layout.mask_id
    x_t[2:4, 5:8] = layout.pad_id  # rooms that are not there
    sigma = torch.tensor([4.0, 0.0, 0.3, 1.0, 1.0])
    (found,) = session.run(None, {"x_t": x_t.numpy(), "sigma": sigma.numpy()})
    with torch.no_grad():
        told = sigma if algorithm.time_conditioning else None  # as in training
        expected = algorithm.apply_backbone(x_t, told)
    real = x_t != layout.pad_id
    assert (torch.from_numpy(found) - expected).abs()[real].max() < TOLERANCE
    said = session.get_modelmeta().custom_metadata_map
    assert json.loads(said["vocabulary"]) == {"tokens": ["a"]}
    assert json.loads(said["mask_id"]) == layout.mask_id


def test_a_network_that_needs_more_is_refused(tmp_path):
    words = ["algo=distill", "model=bd_tiny"]
    algorithm = build_algorithm(complete_data(compose("train", words)))
    with pytest.raises(ValueError, match=r"format=onnx .*x_t and sigma.*component"):
        export_onnx(algorithm, {}, tmp_path / "network.onnx")
    assert not (tmp_path / "network.onnx").exists()
    assert logging.getLogger("onnxscript").level in (logging.NOTSET, logging.ERROR)
