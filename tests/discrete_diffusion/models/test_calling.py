"""How a network of any signature is called, which cannot be, and columns without data."""

from __future__ import annotations

import functools
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


class Named(Network):
    def forward(self, x, sigma):
        return self.said(x, sigma)


class Second(Network):
    def forward(self, indices, timesteps):
        return self.said(indices, timesteps)


class SecondOptional(Network):
    def forward(self, x, t=None):
        return self.said(x, t)


class KeywordOnly(Network):
    def forward(self, x, *, sigma, flag=None):
        return self.said(x, sigma, flag)


class Third(Network):
    """The order of a block-wise network."""

    def forward(self, x_t, group_idxs, sigma):
        return self.said(x_t, sigma, group_idxs)


class ThirdBehindAnOption(Network):
    def forward(self, x, mask=None, sigma=None):
        assert mask is None
        return self.said(x, sigma)


class ThirdByAnotherName(Network):
    def forward(self, x, flag, timesteps):
        return self.said(x, timesteps, flag)


class Open(Network):
    def forward(self, x, sigma=None, **kwargs):
        return self.said(x, sigma, kwargs.get("flag"))


class OpenSecond(Network):
    def forward(self, x, time, **kwargs):
        return self.said(x, time, kwargs.get("flag"))


class OpenByName(Network):
    def forward(self, x, mask=None, **kwargs):
        assert mask is None
        return self.said(x, **kwargs)


class ByPlace(Network):
    def forward(self, x, sigma, /):
        return self.said(x, sigma)


class Anything(Network):
    def forward(self, *args, **kwargs):
        return self.said(*args, **kwargs)


class Timeless(Network):
    def forward(self, x):
        return self.said(x)


class TimelessFlag(Network):
    def forward(self, x, flag=None):
        return self.said(x, None, flag)


class TimelessBlocks(Network):
    def forward(self, x_t, group_idxs):
        return self.said(x_t, None, group_idxs)


def answer(network: nn.Module, sigma=SIGMA, **conditions) -> torch.Tensor:
    return BackboneCall.of(network)(network, X, sigma, conditions)


@pytest.mark.parametrize(
    "kind",
    [
        *(Named, Second, SecondOptional, KeywordOnly, ThirdBehindAnOption),
        *(Open, OpenSecond, OpenByName, ByPlace, Anything),
    ],
)
def test_x_t_goes_in_first_and_sigma_by_name_or_second(kind):
    assert torch.equal(answer(kind()), X + 10 * SIGMA[:, None])
    assert torch.equal(answer(kind(), sigma=None), X.float())


@pytest.mark.parametrize("kind", [KeywordOnly, Open, OpenSecond, OpenByName])
def test_conditions_go_in_by_name(kind):
    call = BackboneCall.of(kind())
    assert call.takes("flag")
    assert not call.takes(call.sigma) or call.takes_any
    assert torch.equal(answer(kind(), flag=torch.ones(2, 1)), X + 10 * SIGMA[:, None] + 100)


def test_the_order_of_a_block_wise_network():
    call = BackboneCall.of(Third())
    assert (call.sigma, call.second, call.required) == ("sigma", False, ("group_idxs",))
    blocks = torch.tensor([[0, 0, 1]])
    assert torch.equal(answer(Third(), group_idxs=blocks), X + 10 * SIGMA[:, None] + 100 * blocks)


def test_a_time_further_back_is_sigma_before_whatever_stands_second():
    call = BackboneCall.of(ThirdByAnotherName())
    assert (call.sigma, call.second, call.required) == ("timesteps", False, ("flag",))
    flag = torch.ones(2, 1)
    assert torch.equal(answer(ThirdByAnotherName(), flag=flag), X + 10 * SIGMA[:, None] + 100)


@pytest.mark.parametrize("kind", [Timeless, TimelessFlag, TimelessBlocks])
def test_what_has_no_place_for_sigma_is_given_none(kind):
    call = BackboneCall.of(kind())
    assert call.sigma is None
    given = {name: torch.ones(2, 1) for name in call.required}
    assert torch.equal(answer(kind(), **given), X + 100.0 * len(given))


@pytest.mark.parametrize("name", ["mask", "time_mask", "labels", "keep", "dtn"])
def test_an_option_that_may_be_about_anything_is_not_sigma(name):
    scope: dict = {}
    exec(f"def forward(x, {name}=None): return x", scope)
    network = Network()
    network.forward = scope["forward"]
    call = BackboneCall.of(network)
    assert call.sigma is None
    assert call.conditions == {name}


def test_a_mask_that_must_be_given_is_not_sigma():
    network = Network()
    network.forward = lambda input_ids, attention_mask: input_ids
    call = BackboneCall.of(network)
    assert (call.sigma, call.required) == (None, ("attention_mask",))


def test_wrapped_networks_are_called_as_what_is_inside():
    class Through(nn.Module):
        """As DDP and FSDP hand things on."""

        def __init__(self, module):
            super().__init__()
            self.module = module

        def forward(self, *inputs, **kwargs):
            return self.module(*inputs, **kwargs)

    for kind in (Second, Named, KeywordOnly):
        wrappers = (Through, AveragedModel, nn.DataParallel, lambda n: Through(Through(n)))
        wrapped = [wrap(kind()) for wrap in wrappers]
        if kind is Second:
            in_place = kind()
            in_place.compile(backend="eager")
            compiled = torch.compile(kind(), backend="eager")
            wrapped += [in_place, compiled, Through(compiled)]
        for network in wrapped:
            assert BackboneCall.of(network) == BackboneCall.of(kind())
            assert torch.equal(answer(network).cpu(), X + 10 * SIGMA[:, None])
    assert "Second.forward(indices, timesteps)" in described(Through(Second()))


def test_a_network_that_holds_another_is_read_itself():
    class Adapter(nn.Module):
        def __init__(self):
            super().__init__()
            self.module = Second()

        def forward(self, x, *, sigma):
            return 2 * self.module(x, sigma)

    assert torch.equal(answer(Adapter()), 2 * (X + 10 * SIGMA[:, None]))


def test_decorated_and_partly_bound_forwards():
    class Decorated(Network):
        @torch.no_grad()
        def forward(self, x, time):
            return self.said(x, time)

    bound = KeywordOnly()
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


def no_arguments():
    return None


def names_only(*, x, sigma):
    return None


def any_names_only(**kwargs):
    return None


def sigma_first(sigma, x):
    return None


def time_first(t, x, y=None):
    return None


def x_t_later(group_idxs, x_t, sigma):
    return None


UNCALLABLE = [no_arguments, names_only, any_names_only, sigma_first, time_first, x_t_later]


@pytest.mark.parametrize("forward", UNCALLABLE)
def test_a_signature_that_cannot_serve_is_refused_with_the_contract(forward):
    network = Network()
    network.forward = forward
    with pytest.raises(ValueError, match="does not take x_t first") as caught:
        BackboneCall.of(network)
    assert described(network) in str(caught.value)
    assert CONTRACT in str(caught.value)


def test_what_has_no_forward_is_refused():
    with pytest.raises(ValueError, match=r"partial\.forward cannot be read") as caught:
        BackboneCall.of(functools.partial(Second()))
    assert CONTRACT in str(caught.value)


@pytest.mark.usefixtures("clean_registry")
def test_the_registry_refuses_it_when_it_is_built(make_config):
    @register_backbone("backwards")
    def build(config, vocab_size):
        network = Network()
        network.forward = sigma_first
        return network

    with pytest.raises(ValueError, match=r"Network\.forward\(sigma, x\) does not take x_t first"):
        build_backbone(make_config("backwards", "bd_small"), 28)


def flags(*rows: str) -> torch.Tensor:
    return torch.tensor([[mark == "x" for mark in row] for row in rows])


def test_full_batch_is_left_alone():
    packing = pack_columns(flags("xxx", "xxx"))
    assert packing.columns is None
    assert packing.key_mask is None
    x = torch.randn(2, 3, 4)
    assert packing.pack(x) is x
    assert packing.unpack(x) is x


def test_common_padding_is_left_out_without_a_mask():
    packing = pack_columns(flags("x.x.", "x.x."))
    assert packing.kept == (0, 2)
    assert packing.key_mask is None


def test_mixed_padding_is_masked():
    packing = pack_columns(flags("x.x.x", "x...x", "....x"))
    assert packing.columns.tolist() == [0, 2, 4]
    assert torch.equal(packing.key_mask[:, 0, 0], flags("xxx", "x.x", "..x"))


def test_sample_of_nothing_but_pad_sees_everything():
    packing = pack_columns(flags("xx.", "..."))
    assert packing.kept == (0, 1)
    assert packing.key_mask[1].all()


def test_nothing_real_or_nothing_at_all_keeps_every_column():
    for real in (flags("...", "..."), torch.zeros(0, 3, dtype=torch.bool)):
        packing = pack_columns(real)
        assert packing.kept == (0, 1, 2)
        assert packing.key_mask is None


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
