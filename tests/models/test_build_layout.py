import pytest
import torch
from omegaconf import OmegaConf

from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG, build_layout


def test_n_max_gives_the_layout_of_a_graph():
    layout = build_layout(OmegaConf.create({"n_max": 8, "batch_size": 3}))
    assert (layout.length, layout.vocab_size, layout.mask_id, layout.pad_id) == (36, 28, 13, 14)
    assert torch.equal(layout.support, RPLAN_VOCAB_CONFIG.layout().support)


@pytest.mark.parametrize("pad_id", [None, 4])
def test_plain_sequences(pad_id):
    keys = {"n_max": None, "length": 7, "vocab_size": 6, "mask_id": 5, "pad_id": pad_id}
    layout = build_layout(keys)
    assert (layout.length, layout.vocab_size, layout.mask_id, layout.pad_id) == (7, 6, 5, pad_id)


def test_missing_keys_are_named():
    with pytest.raises(ValueError, match=r"^data\.mask_id is not set; expected data\.n_max"):
        build_layout({"length": 7, "vocab_size": 6})
