"""``load(...).log_prob`` of what ``sample`` returns."""

from __future__ import annotations

import pytest
import torch

from continuous_states.eit.domain import EIT
from discrete_diffusion import load
from discrete_diffusion.contracts import Batch
from discrete_diffusion.data.graph_tokens import TypedGraph, decode_graphs
from discrete_diffusion.domains.graphs.domain import Graphs
from discrete_diffusion.domains.molecules.domain import Molecules
from discrete_diffusion.domains.molecules.molecule import Molecule, decode_molecules
from discrete_diffusion.domains.text.domain import Text
from discrete_diffusion.domains.text.vocabulary import vocabulary_of
from discrete_diffusion.sampling.likelihood import order_log_probs
from floor_plans import encode


@pytest.fixture(scope="module")
def model(untrained):
    return load(untrained)


def test_of_diagrams_and_of_their_tokens(model):
    diagrams = model.sample(num=5)
    encoded = encode(diagrams)
    expected = order_log_probs(model, Batch(encoded.x0, encoded.real), "entropy")
    found = model.log_prob(diagrams, "entropy")
    assert torch.equal(found, expected)
    assert found.dtype == torch.float64
    assert (found <= 0).all()
    assert (found < -1).any()
    assert torch.equal(model.log_prob(encoded.x0, order="entropy"), expected)
    assert torch.equal(model.log_prob(diagrams[2:3], "entropy"), expected[2:3])
    assert len(model.log_prob([], "margin")) == 0
    for wrong in (diagrams[0], "abc"):
        with pytest.raises(ValueError, match="samples: expected a list"):
            model.log_prob(wrong, "entropy")


def test_what_is_refused(model):
    (diagram,) = model.sample(num=1)
    with pytest.raises(ValueError, match=r"order=confidence.*choose"):
        model.log_prob([diagram], "confidence")
    tokens = encode([diagram]).x0
    tokens[0, 0] = model.layout.mask_id
    with pytest.raises(ValueError, match="sample 0, position 0"):
        model.log_prob(tokens, "entropy")


def test_each_kind_of_data_encodes_what_it_samples():
    data = {"length": 6, "token_unit": "characters", "characters": "abc", "vocab_size": 5}
    tokens = Text().tokens(data, ["abcabc", "ca"])
    assert vocabulary_of(data).decode(tokens) == ["abcabc", "ca"]
    with pytest.raises(ValueError, match=r"samples\[1\] has 7 characters.*data\.length=6"):
        Text().tokens(data, ["a", "abcabca"])
    with pytest.raises(ValueError, match=r"samples\[0\].*'d'"):
        Text().tokens(data, ["d"])
    with pytest.raises(ValueError, match=r"samples\[0\] holds U\+FFFD.*give tokens"):
        Text().tokens({"length": 6, "token_unit": "bytes"}, ["a\ufffd"])
    graph = {"max_nodes": 3, "node_types": ["node"], "edge_types": ["edge", "none"]}
    tokens = Graphs().tokens(graph, [TypedGraph((0, 0), ((0, 1, 0),))])
    assert decode_graphs(tokens, Graphs().vocabulary(graph)) == [TypedGraph((0, 0), ((0, 1, 0),))]
    water = Molecule(("C", "O"), ((0, 1, 0),))
    data = {"max_nodes": 3, "atoms": ["C", "O"]}
    assert decode_molecules(Molecules().tokens(data, [water]), Molecules().vocabulary(data)) == [
        water
    ]


def test_of_other_kinds_tokens_are_given():
    levels = {"domain": "eit", "name": "eit_quantised", "length": 4, "vocab_size": 7, "mask_id": 6}
    with pytest.raises(ValueError, match=r"give tokens Int\[M, L\]"):
        EIT().tokens(levels, [])
