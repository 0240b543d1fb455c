"""How a network of any signature is called, which cannot be, and columns without data."""

from __future__ import annotations

import functools
from copy import deepcopy
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from discrete_diffusion.models.calling import CONTRACT, BackboneCall, described, pack_columns
from discrete_diffusion.models.registry import build_backbone, register_backbone

X, SIGMA = torch.arange(6).view(2, 3), torch.tensor([0.5, 2.0])


class Network(nn.Module):
    """Says which argument it was given what as: x_t + 10 sigma + 100 flag."""

    def said(self, x, sigma=None, flag=None):
        sigma = torch.zeros(2) if sigma is None else sigma
        return x + 10 * sigma[:, None] + (0 if flag is None else 100 * flag)


def network(signature: str, returns: str = "x", name: str = "Made") -> nn.Module:
    """A network of this signature, which says what it was given."""
    scope: dict = {}
    exec(f"def forward(self, {signature}): return self.said({returns})", scope)
    return type(name, (Network,), scope)()


def answer(network: nn.Module, sigma=SIGMA, **conditions) -> torch.Tensor:
    return BackboneCall.of(network)(network, X, sigma, conditions)


NAMED = network("x, sigma", "x, sigma")
SECOND = network("indices, timesteps", "indices, timesteps", "Second")
KEYWORD_ONLY = network("x, *, sigma, flag=None", "x, sigma, flag")
OPEN = [
    network("x, sigma=None, **kwargs", "x, sigma, kwargs.get('flag')"),
    network("x, time, **kwargs", "x, time, kwargs.get('flag')"),
    network("x, mask=None, **kwargs", "x, **kwargs"),
]
OTHERS = [
    network("x, t=None", "x, t"),
    network("x, mask=None, sigma=None", "x, sigma"),
    network("x, sigma, /", "x, sigma"),
    network("*args, **kwargs", "*args, **kwargs"),
]


@pytest.mark.parametrize("made", [NAMED, SECOND, KEYWORD_ONLY, *OPEN, *OTHERS])
def test_x_t_goes_in_first_and_sigma_by_name_or_second(made):
    assert torch.equal(answer(made), X + 10 * SIGMA[:, None])
    assert torch.equal(answer(made, sigma=None), X.float())


def test_only_a_second_of_another_name_goes_in_by_place():
    assert BackboneCall.of(SECOND).second
    assert not BackboneCall.of(NAMED).second


@pytest.mark.parametrize("made", [KEYWORD_ONLY, *OPEN])
def test_conditions_go_in_by_name(made):
    call = BackboneCall.of(made)
    assert call.takes("flag")
    assert not call.takes(call.sigma) or call.takes_any
    assert torch.equal(answer(made, flag=torch.ones(2, 1)), X + 10 * SIGMA[:, None] + 100)


@pytest.mark.parametrize(("name", "sigma"), [("group_idxs", "sigma"), ("flag", "timesteps")])
def test_a_time_further_back_is_sigma_before_whatever_stands_second(name, sigma):
    made = network(f"x_t, {name}, {sigma}", f"x_t, {sigma}, {name}")
    call = BackboneCall.of(made)
    assert (call.sigma, call.second, call.required) == (sigma, False, (name,))
    given = torch.tensor([[0, 0, 1]])
    assert torch.equal(answer(made, **{name: given}), X + 10 * SIGMA[:, None] + 100 * given)


@pytest.mark.parametrize("more", ["", "flag=None", "group_idxs"])
def test_what_has_no_place_for_sigma_is_given_none(more):
    made = network(f"x, {more}", "x, None, " + more.removesuffix("=None"))
    call = BackboneCall.of(made)
    assert call.sigma is None
    given = {name: torch.ones(2, 1) for name in call.required}
    assert torch.equal(answer(made, **given), X + 100.0 * len(given))


@pytest.mark.parametrize("name", ["mask", "time_mask", "labels", "dtn"])
def test_an_option_that_may_be_about_anything_is_not_sigma(name):
    call = BackboneCall.of(network(f"x, {name}=None"))
    assert (call.sigma, call.conditions) == (None, {name})


def test_a_mask_that_must_be_given_is_not_sigma():
    call = BackboneCall.of(network("input_ids, attention_mask", "input_ids"))
    assert (call.sigma, call.required) == (None, ("attention_mask",))


def test_wrapped_networks_are_called_as_what_is_inside():
    class Through(nn.Module):
        """As DDP and FSDP hand things on."""

        def __init__(self, module):
            super().__init__()
            self.module = module

        def forward(self, *inputs, **kwargs):
            return self.module(*inputs, **kwargs)

    for made in (SECOND, NAMED, KEYWORD_ONLY):
        wrappers = (Through, AveragedModel, nn.DataParallel, lambda n: Through(Through(n)))
        wrapped = [wrap(deepcopy(made)) for wrap in wrappers]
        if made is SECOND:
            in_place = deepcopy(made)
            in_place.compile(backend="eager")
            compiled = torch.compile(deepcopy(made), backend="eager")
            wrapped += [in_place, compiled, Through(compiled)]
        for network in wrapped:
            assert BackboneCall.of(network) == BackboneCall.of(made)
            assert torch.equal(answer(network).cpu(), X + 10 * SIGMA[:, None])
    assert "Second.forward(indices, timesteps)" in described(Through(SECOND))


def test_a_network_that_holds_another_is_read_itself():
    class Adapter(nn.Module):
        def __init__(self):
            super().__init__()
            self.module = SECOND

        def forward(self, x, *, sigma):
            return 2 * self.module(x, sigma)

    assert torch.equal(answer(Adapter()), 2 * (X + 10 * SIGMA[:, None]))


def test_decorated_and_partly_bound_forwards():
    class Decorated(Network):
        @torch.no_grad()
        def forward(self, x, time):
            return self.said(x, time)

    bound = deepcopy(KEYWORD_ONLY)
    bound.forward = functools.partial(bound.forward, flag=torch.ones(2, 1))
    assert torch.equal(answer(Decorated()), X + 10 * SIGMA[:, None])
    assert torch.equal(answer(bound), X + 10 * SIGMA[:, None] + 100)


def test_what_holds_the_output_alone_is_unwrapped():
    expected = X + 10 * SIGMA[:, None]

    class Holding(Network):
        hold = staticmethod(lambda logits: logits)

        def forward(self, x, sigma):
            return self.hold(self.said(x, sigma))

    class Output(dict):
        """As the networks of other libraries return: a dict with attributes."""

        logits = property(lambda self: self["logits"])

    network = Holding()
    for hold in (
        lambda logits: (logits,),
        lambda logits: [logits],
        lambda logits: Output(logits=logits, loss=None),
        lambda logits: SimpleNamespace(logits=logits),
    ):
        network.hold = hold
        assert torch.equal(answer(network), expected)
    for hold, said in (
        (lambda logits: (logits, logits), "a tuple of 2"),
        (lambda logits: {"logits": logits}, "a dict of logits"),
        (lambda logits: SimpleNamespace(scores=logits), "a SimpleNamespace"),
        (lambda logits: None, "a NoneType"),
    ):
        network.hold = hold
        with pytest.raises(TypeError, match=rf"Holding\.forward\(x, sigma\) returned {said};"):
            answer(network)


UNCALLABLE = ["", "*, x, sigma", "**kwargs", "sigma, x", "t, x, y=None", "group_idxs, x_t, sigma"]


@pytest.mark.parametrize("signature", UNCALLABLE)
def test_a_signature_that_cannot_serve_is_refused_with_the_contract(signature):
    made = network(signature, "None")
    with pytest.raises(ValueError, match="does not take x_t first") as caught:
        BackboneCall.of(made)
    assert described(made) in str(caught.value)
    assert CONTRACT in str(caught.value)


def test_what_has_no_forward_is_refused():
    with pytest.raises(ValueError, match=r"partial\.forward cannot be read") as caught:
        BackboneCall.of(functools.partial(SECOND))
    assert CONTRACT in str(caught.value)


@pytest.mark.usefixtures("clean_registry")
def test_the_registry_refuses_it_when_it_is_built(make_config):
    register_backbone("backwards")(lambda config, vocab_size: network("sigma, x"))
    with pytest.raises(ValueError, match=r"Made\.forward\(sigma, x\) does not take x_t first"):
        build_backbone(make_config("backwards", "bd_small"), 28)


def flags(*rows: str) -> torch.Tensor:
    return torch.tensor([[mark == "x" for mark in row] for row in rows])


@pytest.mark.parametrize(
    ("real", "kept", "key_mask"),
    [
        (flags("x.x.", "x.x."), (0, 2), None),  # common padding is left out without a mask
        (flags("x.x.x", "x...x", "....x"), (0, 2, 4), flags("xxx", "x.x", "..x")),
        (flags("xx.", "..."), (0, 1), flags("xx", "xx")),  # nothing but PAD sees everything
        (flags("...", "..."), (0, 1, 2), None),
        (torch.zeros(0, 3, dtype=torch.bool), (0, 1, 2), None),
    ],
)
def test_columns_that_are_kept_and_seen(real, kept, key_mask):
    packing = pack_columns(real)
    assert packing.kept == kept
    if key_mask is None:
        assert packing.key_mask is None
    else:
        assert torch.equal(packing.key_mask[:, 0, 0], key_mask)


def test_a_full_batch_is_left_alone():
    packing = pack_columns(flags("xxx", "xxx"))
    assert packing.columns is packing.key_mask is None
    x = torch.randn(2, 3, 4)
    assert packing.pack(x) is packing.unpack(x) is x


def test_unpack_inverts_pack_and_leaves_zeros():
    packing = pack_columns(flags("x.xx.x", "x.xx.."))
    x = torch.randn(2, 6, 3)
    packed = packing.pack(x)
    full = packing.unpack(packed)
    assert torch.equal(full[:, [0, 2, 3, 5]], x[:, [0, 2, 3, 5]])
    assert (full[:, [1, 4]] == 0).all()
    first = packing.num_kept_before(3)
    halves = [packing.unpack(packed[:, :first], 0, 3), packing.unpack(packed[:, first:], 3, 6)]
    assert torch.equal(torch.cat(halves, dim=1), full)
