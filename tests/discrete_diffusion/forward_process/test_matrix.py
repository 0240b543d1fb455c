"""What is particular to the process of transition matrices; the exact checks are shared."""

from __future__ import annotations

import mpmath
import pytest
import torch

from discrete_diffusion.algorithms import D3PM, MDLM, general_bound
from discrete_diffusion.categorical import log_softmax_on, make_generator
from discrete_diffusion.forward_process import Absorbing, ForwardProcess, Matrix
from discrete_diffusion.forward_process.matrix import gaussian, neighbours
from discrete_diffusion.forward_process.registry import build_forward_process
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.noise_schedules import Cosine, LogLinear
from toy_algorithms import ZeroBackbone, own_rates, toy_marginal
from toy_world import LEGAL, MASK, VOCAB_SIZE, ToyWorld, all_schedules, toy_layout


def flat(num: int, length: int = 1) -> TokenLayout:
    return TokenLayout.flat(length, num + 1, mask_id=num)


def at(*times: float) -> torch.Tensor:
    return torch.tensor(times, dtype=torch.float64)


def precise(process: Matrix, tau: mpmath.mpf) -> mpmath.matrix:
    """expm(tau R) with 400 digits."""
    with mpmath.workdps(400):
        return mpmath.expm(mpmath.matrix(process.generators[0].tolist()) * tau, method="taylor")


@pytest.mark.parametrize("options", [{}, {"kind": "gaussian", "width": 0.7}], ids=["nn", "gauss"])
@pytest.mark.parametrize("time", [1e-60, 1e-3, 0.97, 1 - 1e-9])
def test_every_entry_has_its_own_relative_accuracy(options, time):
    """Far ids too, at 1e-300 and below, where a sum of eigenvectors holds nothing but rounding."""
    num = 7
    process = Matrix(flat(num), LogLinear(), **options)
    found = process.log_transition(at(0.0), at(time))[0, 0, :num, :num]
    with mpmath.workdps(400):
        exact = precise(process, -mpmath.log(1 - mpmath.mpf(time)))
        expected = torch.tensor(
            [[float(mpmath.log(exact[x, y])) for y in range(num)] for x in range(num)],
            dtype=torch.float64,
        )
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-11)


@pytest.mark.parametrize("kind", ["neighbours", "gaussian"])
def test_alpha_is_what_is_left_of_the_slowest_mode(kind):
    """The second eigenvalue of q_t is alpha(t), for every number of legal ids; the others less."""
    layout = toy_layout()
    process = Matrix(layout, Cosine(), kind=kind)
    for time in (0.1, 0.5, 0.9):
        q = process.transition(at(0.0), at(time))[0][process.matrix_index()]
        for position, legal in enumerate(LEGAL):
            ids = torch.tensor(legal)
            modes = torch.linalg.eigvals(q[position][ids[:, None], ids]).real.sort().values
            assert float(modes[-1]) == pytest.approx(1, abs=1e-12)
            assert float(modes[-2]) == pytest.approx(float(process.alpha(at(time))), abs=1e-12)


def test_the_two_generators():
    chain = torch.tensor([[-1, 1, 0, 0], [1, -2, 1, 0], [0, 1, -2, 1], [0, 0, 1, -1.0]]).double()
    assert torch.equal(neighbours(4), chain)
    jumps = gaussian(4, 2.0)
    assert torch.equal(jumps, jumps.T)
    assert float(jumps[0, 2] / jumps[0, 1]) == pytest.approx(2.718281828 ** (-3 / 8))
    assert jumps.sum(dim=-1).abs().max() < 1e-15
    assert (gaussian(64, 0.01) > 0).sum() == 2 * 63  # never narrower than the neighbours


def as_generator(process: ForwardProcess) -> torch.Tensor:
    """R = 1 pi^T - I: of noise that replaces a token by a draw from the prior."""
    return process.prior().unsqueeze(1) - torch.eye(VOCAB_SIZE, dtype=torch.float64)


class ByDefault(ForwardProcess):
    """A prior and nothing else."""

    name = "by default"

    def __init__(self, of: ForwardProcess) -> None:
        super().__init__(of.layout, of.schedule)
        self.of = [of]

    def prior(self):
        return self.of[0].prior()


@pytest.mark.parametrize("schedule", ["per_group"])
@pytest.mark.parametrize("make", [Absorbing, toy_marginal])
@pytest.mark.parametrize("how", ["generator", "default"])
def test_interpolating_noise_as_matrices_has_the_numbers_of_its_closed_forms(how, make, schedule):
    """Marginals, posteriors, the bound and its gradient."""
    layout = toy_layout()
    closed = make(layout, all_schedules(layout)[schedule])
    general: ForwardProcess = ByDefault(closed)
    if how == "generator":
        general = Matrix(layout, closed.schedule, generator=as_generator(closed))
    torch.testing.assert_close(general.prior(), closed.prior(), rtol=0, atol=1e-12)
    world, generator, num = ToyWorld.make(), make_generator(3), 40
    x0 = world.x0[torch.randint(len(world.x0), (num,), generator=generator)]
    real = torch.ones_like(x0, dtype=torch.bool)
    logits = torch.randn(num, 3, VOCAB_SIZE, dtype=torch.float64, generator=generator)
    for time in (1e-6, 0.3, 0.9, 1 - 1e-6):
        t, s = at(time).expand(num), at(time / 2).expand(num)
        xt = closed.corrupt(x0, t, real, generator)
        found = []
        for process in (general, closed):
            leaf = logits.clone().requires_grad_()
            log_d0 = log_softmax_on(leaf, layout.support)
            terms = general_bound(process, xt, x0, log_d0, t, real)
            (slope,) = torch.autograd.grad(terms.sum(), leaf)
            found.append(
                (
                    terms.detach(),
                    slope,
                    process.marginal_log_probs(log_d0, t).exp().detach(),
                    process.posterior_log_probs(xt, log_d0, t, s).exp().detach(),
                    process.leave_one_out(log_d0, xt, t).exp().detach(),
                )
            )
        for ours, theirs in zip(*found, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-9)


def test_positions_that_share_rates_and_schedule_share_a_matrix():
    layout = toy_layout()
    assert len(Matrix(flat(5, 100), LogLinear()).generators) == 1
    assert len(Matrix(layout, LogLinear()).generators) == 3
    same = TokenLayout(
        layout.support[[1, 1, 1]], mask_id=MASK, group=layout.group, group_names=("node", "edge")
    )
    assert len(Matrix(same, LogLinear()).generators) == 1
    per_group = Matrix(same, all_schedules(layout)["per_group"])
    assert per_group.matrix_index().unique().numel() == 2
    assert per_group.matrix_index()[1] == per_group.matrix_index()[2]


def test_it_counts_on_the_meta_device():
    with torch.device("meta"):
        layout = TokenLayout.flat(4, 6, mask_id=5)
        assert sum(p.numel() for p in Matrix(layout, LogLinear()).parameters()) == 0


ROWS = torch.eye(VOCAB_SIZE, dtype=torch.float64)


def among(*pairs: tuple[int, int], rate: float = 1.0) -> torch.Tensor:
    """Rates between these pairs of ids, both ways."""
    rates = torch.zeros(VOCAB_SIZE, VOCAB_SIZE, dtype=torch.float64)
    for x, y in pairs:
        rates[x, y] = rates[y, x] = rate
    return rates - torch.diag(rates.sum(dim=-1))


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"kind": "gausian"}, ["forward_process.kind", "gaussian"]),
        ({"width": 0.0}, ["forward_process.width=0.0", "above 0"]),
        ({"width": float("nan")}, ["forward_process.width=nan"]),
        ({"generator": ROWS[:4]}, ["(4, 6)", "(6, 6)", "(3, 6, 6)"]),
        ({"generator": among((0, 1), rate=-1.0)}, ["id 0 to id 1", "-1", "at least 0"]),
        ({"generator": among((0, 1)) + ROWS}, ["row of id 0", "sums to 1", "Q - I"]),
        ({"generator": among((2, 3), (0, 3))}, ["position 0", "id 3", "not legal"]),
        ({"generator": among((0, 1))}, ["never forgotten", "[0, 1, 2]"]),
    ],
)
def test_what_is_no_process_is_refused(options, names):
    with pytest.raises(ValueError) as error:
        Matrix(toy_layout(), LogLinear(), **options)
    assert all(name in str(error.value) for name in names), error.value


def test_too_many_ids_are_refused_with_another_process():
    with pytest.raises(ValueError, match=r"at most 256 ids.*1001.*forward_process=uniform"):
        Matrix(flat(1000), LogLinear())


def test_it_is_built_by_name():
    process = build_forward_process(
        {"name": "matrix", "kind": "gaussian", "width": 2.0}, toy_layout(), LogLinear()
    )
    assert isinstance(process, Matrix)
    with pytest.raises(ValueError, match="forward_process=absorbing"):
        MDLM(ZeroBackbone(), process)
    D3PM(ZeroBackbone(), process)


def test_squares_that_nothing_needs_change_no_bit(monkeypatch):
    """Where a device would have to be asked how many it takes, as many are made as it could."""
    process = own_rates(toy_layout(), LogLinear())
    t = torch.tensor([1e-9, 0.3, 0.9, 1.0], dtype=torch.float64)
    asked = process.log_transition(torch.zeros_like(t), t)
    exponential = process.exponential
    counted = exponential.most_halvings
    largest = torch.full((1, len(process.first)), exponential.log_largest, dtype=torch.float64)
    halvings = ((largest + exponential.log_speed) / torch.tensor(2.0).log().double()).ceil()
    assert counted == int(halvings.max())
    monkeypatch.setattr(type(exponential), "_num_squares", lambda self, halvings: counted)
    assert torch.equal(process.log_transition(torch.zeros_like(t), t), asked)
