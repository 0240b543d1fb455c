"""A backbone is tried before it is trained."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
import torch
from torch import nn

from composed import composed
from discrete_diffusion.algorithms import AR, BD3LM, MDLM, build_algorithm
from discrete_diffusion.algorithms.leaks import random_where_zero
from discrete_diffusion.algorithms.preflight import try_backbone
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import VocabConfig
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.training.callbacks import MovingAverage
from strangers import (
    BothWays,
    BothWaysFromZero,
    Causal,
    CountsPad,
    Encoder,
    FixedLength,
    Integers,
    KeepsToItsBlocks,
    Nan,
    Normalised,
    Object,
    OneIdShort,
    OneScore,
    Probabilities,
    ReadsItsOwnContext,
    ReadsOtherNoise,
    SamplesSecond,
    SeesPad,
    Single,
    Their,
    Transposed,
    UNet,
)

VOCAB = VocabConfig(n_max=4)
LENGTH, SIZE = VOCAB.length, VOCAB.vocab_size


def batch_of(*num_nodes: int) -> Batch:
    real = VOCAB.real_positions(torch.tensor(num_nodes))
    x0 = VOCAB.layout().support.long().argmax(dim=1).expand_as(real)
    return Batch(torch.where(real, x0, VOCAB.pad_id), real)


def tried(kind, algorithm=MDLM, batch: Batch | None = None, **options):
    torch.manual_seed(0)
    network = kind(SIZE, LENGTH) if isinstance(kind, type) else kind
    made = algorithm(network, Absorbing(VOCAB.layout(), LogLinear()), **options)
    try_backbone(made, batch_of(2, 4) if batch is None else batch)
    return made


class Detached(Their):
    def forward(self, x, sigma):
        return super().forward(x, sigma).detach()


class Frozen(Their):
    def __init__(self, vocab_size, length):
        super().__init__(vocab_size, length)
        self.requires_grad_(False)


class InAList(nn.Module):
    def __init__(self, vocab_size, length):
        super().__init__()
        self.layers = [Their(vocab_size, length)]

    def forward(self, x, sigma):
        return self.layers[0](x, sigma)


class ExtraState(Their):
    def get_extra_state(self):
        return None


class GrowsABuffer(Their):
    is_saved = True

    def __init__(self, vocab_size, length):
        super().__init__(vocab_size, length)
        self.register_buffer("angles", torch.zeros(0), persistent=self.is_saved)

    def forward(self, x, sigma):
        if len(self.angles) < x.shape[1]:
            self.angles = torch.arange(x.shape[1]).float()
        return super().forward(x, sigma) + self.angles[:, None]


class GrowsALayer(Their):
    def forward(self, x, sigma):
        if not hasattr(self, "more"):
            self.more = nn.Linear(SIZE, SIZE)
        return self.more(super().forward(x, sigma))


class Infinite(Their):
    place = (1, 2, 0)

    def forward(self, x, sigma):
        logits = self.logits(x, sigma)
        logits[..., VOCAB.pad_id] = -torch.inf  # which is never read
        logits[self.place] = torch.inf
        return logits


class InfiniteAtPad(Infinite):
    place = (0, 3, 0)  # of the sample of two nodes


class BlocksFromZero(ReadsItsOwnContext):
    def __init__(self, vocab_size, length):
        super().__init__(vocab_size, length)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)


CAUSAL = [
    "its logits at position 0 move with the token at position",
    "causal",
    "preflight=fal",
]


@pytest.mark.parametrize(
    ("algorithm", "kind", "said"),
    [
        (MDLM, OneIdShort, ["returned float32 of shape (2, 10, 27)", "needs 28 outputs"]),
        (MDLM, Transposed, ["float32 of shape (2, 28, 10)", "transpose the last two axes"]),
        (MDLM, SamplesSecond, ["float32 of shape (10, 2, 28)", "put the samples first"]),
        (MDLM, OneScore, ["float32 of shape (2, 10)", "(2, 10, 28)", "a score for every id"]),
        (MDLM, Integers, ["int64 of shape (2, 10, 28)", "floating-point"]),
        (MDLM, Nan, ["nan before any training, in 3 of 560", "at sample 1, position 2, id 5"]),
        (MDLM, Infinite, ["returned inf"]),
        (MDLM, Detached, ["returned numbers without a gradient"]),
        (MDLM, Frozen, ["none has requires_grad=True"]),
        (MDLM, InAList, ["of its parameters, 0 numbers, none has requires_grad=True"]),
        (MDLM, ExtraState, ["saves _extra_state, which is not a tensor"]),
        (MDLM, GrowsABuffer, ["saves angles in another shape", "((10,), when built"]),
        (MDLM, GrowsALayer, ["saves more.weight in another shape than it was built with"]),
        (AR, BothWays, CAUSAL),
        (AR, BothWaysFromZero, CAUSAL),
        (
            BD3LM,
            ReadsItsOwnContext,
            ["(block 0) move with the clean token at position 0"],
        ),
        (BD3LM, ReadsOtherNoise, ["move with the noisy token at position", "preflight=false"]),
        (BD3LM, BlocksFromZero, ["(block 0)"]),
    ],
)
def test_a_network_that_cannot_serve_is_refused(algorithm, kind, said):
    with pytest.raises((ValueError, TypeError)) as found:
        tried(kind, algorithm)
    assert all(each in str(found.value) for each in [f"{kind.__name__}.forward(", *said])


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Probabilities, ["returned probabilities", "take the log"]),
        (SeesPad, ["the logits at real positions move", "sample 0 at position"]),
        (UNet, ["the logits at real positions move", "sample 0 at position"]),
        (CountsPad, ["how much PAD there is"]),
    ],
)
def test_a_network_that_may_be_wrong_is_warned_of(kind, said, caplog):
    tried(kind)
    assert all(each in caplog.text for each in [f"{kind.__name__}.forward(x, sigma)", *said])


def test_a_network_that_keeps_what_it_computed_can_be_copied_for_the_average():
    class Keeps(Their):
        def forward(self, x, sigma):
            logits = super().forward(x, sigma)
            self.last, self.maps, self.named = logits, [logits, (logits,)], {"logits": logits}
            return logits

    made = tried(Keeps)
    MovingAverage(made, device=torch.device("cpu"), decay=0.9)


@pytest.mark.parametrize("kind", [Object, Single])
def test_logits_are_taken_out_of_what_holds_them_in_every_call(kind):
    made = tried(kind)
    batch = batch_of(2, 4)
    plain = Their(SIZE, LENGTH)
    plain.load_state_dict(made.backbone.state_dict())
    expected = MDLM(plain, made.process).loss(batch, make_generator(1))
    assert torch.equal(made.loss(batch, make_generator(1)).loss, expected.loss)


def test_other_algorithms_hold_a_network_to_it_where_it_is_said_to_be_causal():
    tried(BothWays)
    made = tried(BothWays)
    with pytest.raises(ValueError, match=r"BothWays.*is registered as causal"):
        try_backbone(made, batch_of(2, 4), causal=True)


def test_networks_that_keep_to_what_they_may_read_pass(caplog):
    tried(Causal, AR, batch_of(4, 4))  # a recurrent network reads the PAD between
    tried(KeepsToItsBlocks, BD3LM)
    assert caplog.text == ""


@pytest.mark.parametrize("kind", [Their, Encoder, FixedLength, Normalised, InfiniteAtPad])
def test_networks_that_work_pass_in_silence(kind, caplog):
    tried(kind)
    assert caplog.text == ""


def test_nothing_is_left_behind():
    class Busy(Normalised):
        def __init__(self, vocab_size, length):
            super().__init__(vocab_size, length)
            self.lock = threading.Lock()  # so it cannot be copied
            self.register_buffer("calls", torch.zeros(()))
            nn.init.zeros_(self.head.weight)
            self.head.eval()

        def forward(self, x, sigma):
            self.calls += 1
            return super().forward(x, sigma) + 0.01 * torch.rand(x.shape[1], 1)

    torch.manual_seed(0)
    made = MDLM(Busy(SIZE, LENGTH), Absorbing(VOCAB.layout(), LogLinear()))
    before = {name: value.clone() for name, value in made.state_dict().items()}
    modes = [part.training for part in made.modules()]
    random_numbers = torch.get_rng_state()
    try_backbone(made, batch_of(2, 4))
    assert all(torch.equal(value, before[name]) for name, value in made.state_dict().items())
    assert modes == [part.training for part in made.modules()]
    assert torch.equal(torch.get_rng_state(), random_numbers)
    assert "ask" not in vars(made)


def test_the_random_numbers_in_empty_weights_are_gone_after_an_error():
    network = nn.Linear(3, 2)
    nn.init.zeros_(network.weight)
    with random_where_zero(network):
        assert network.weight.all()
    assert not network.weight.any()
    with pytest.raises(RuntimeError), random_where_zero(network):
        network(torch.ones(4))
    assert not network.weight.any()


def test_an_error_of_the_network_says_when_it_was_raised():
    class Fails(Their):
        def forward(self, x, sigma):
            raise RuntimeError("CUDA only")

    with pytest.raises(RuntimeError, match="CUDA only") as found:
        tried(Fails)
    assert "preflight=false" in found.value.__notes__[0]


@pytest.mark.parametrize(
    ("lost", "named"),
    [
        (lambda found: None, "returned NoneType; expected LossOutput"),
        (lambda found: replace(found, nelbo=found.nelbo.mean()), r"nelbo has shape \[\]"),
        (lambda found: replace(found, nelbo=found.nelbo[:1]), r"nelbo has shape \[1\], of 2"),
        (lambda found: replace(found, loss=found.nelbo), r"loss has shape \[2\]"),
        (lambda found: replace(found, num_real=3), "num_real has shape int"),
    ],
)
def test_an_algorithm_whose_loss_is_none_is_named(lost, named):
    class Own(MDLM):
        def loss(self, *arguments):
            return lost(super().loss(*arguments))

    with pytest.raises((TypeError, ValueError), match=rf"test_preflight\.Own\.loss.*{named}"):
        tried(Single, Own)


@pytest.mark.parametrize(
    ("algorithm", "words"),
    [
        ("mdlm", ["model=bd_tiny", "model.d_model=16", "model.cond_dim=16"]),
        ("ar", ["model=dit_tiny"]),
        ("bd3lm", ["model=dit_tiny"]),
        ("distill", ["model=bd_tiny", "model.d_model=16", "model.cond_dim=16"]),
        ("udlm", ["algo.backbone=my-transformer", "model=my_transformer_tiny"]),
        ("sedd", ["algo.backbone=bd-denoiser-pair", "model=bd_pair_tiny"]),
    ],
)
def test_built_in_backbones_pass_in_silence(algorithm, words, caplog):
    made = build_algorithm(composed("train", [f"algo={algorithm}", *words]))
    real = VocabConfig().real_positions(torch.tensor([4, 8]))
    x0 = torch.where(real, made.layout.support.long().argmax(dim=1), VOCAB.pad_id)
    made.prepare(Batch(x0, real))
    try_backbone(made, Batch(x0, real))
    assert caplog.text == ""


def test_a_look_at_the_last_token_alone_is_seen():
    """The one before it reads it, and no other position does."""

    class Last(Causal):
        def forward(self, x, sigma):
            logits = super().forward(x, sigma).clone()
            logits[:, -2] += (x[:, -1:] % 7).float()
            return logits

    with pytest.raises(ValueError, match=f"position {LENGTH - 2} move with .* {LENGTH - 1};"):
        tried(Last, AR, batch_of(4, 4))
