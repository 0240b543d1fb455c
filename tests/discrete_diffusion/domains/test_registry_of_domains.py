import pytest
import torch
from omegaconf import OmegaConf

from discrete_diffusion.domains import build_layout
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG


def test_n_max_gives_the_layout_of_a_graph():
    layout = build_layout(
        OmegaConf.create({"domain": "bubble_diagrams", "n_max": 8, "batch_size": 3})
    )
    assert (layout.length, layout.vocab_size, layout.mask_id, layout.pad_id) == (36, 28, 13, 14)
    assert torch.equal(layout.support, RPLAN_VOCAB_CONFIG.layout().support)


@pytest.mark.parametrize("pad_id", [None, 4])
def test_plain_sequences(pad_id):
    keys = {"domain": "text", "length": 7, "vocab_size": 6, "mask_id": 5, "pad_id": pad_id}
    layout = build_layout(keys)
    assert (layout.length, layout.vocab_size, layout.mask_id, layout.pad_id) == (7, 6, 5, pad_id)


def test_missing_keys_are_named():
    with pytest.raises(
        ValueError, match=r"^data\.mask_id is not set; plain sequences need data\.length"
    ):
        build_layout({"domain": "text", "length": 7, "vocab_size": 6})


def test_a_config_that_names_no_domain_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"^data\.domain is not set .*bubble_diagrams, .*text"):
        build_layout({"name": "words", "length": 7, "vocab_size": 6, "mask_id": 5})
    with pytest.raises(ValueError, match=r"unknown domain 'txt'; did you mean 'text'"):
        build_layout({"domain": "txt"})
