"""Masked diffusion on floor plans in one file: data, network, loss, training, samples, a picture.

    python examples/train_minimal.py [--steps 1500] [--num-plans 5000] [--out plans.png]

A plan is a bubble diagram: up to 8 rooms, and for each pair of them how the two lie to each other.
As tokens that is 36 positions, 8 rooms and then 28 pairs, and 28 ids. PAD fills what a plan of
fewer rooms leaves. Axes: B samples, L = 36 positions, V = 28 ids.

``discrete-diffusion train`` does the same with configs, checkpoints and an evaluation.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from torch.optim import AdamW
from torch.optim.lr_scheduler import OneCycleLR

from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import RPLAN_VOCAB_CONFIG as VOCAB
from discrete_diffusion.models.bd_denoiser import BDDenoiser, BDDenoiserBackbone
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import FirstHitting
from floor_plans import Diagrams, decode, encode, generate_plans

BATCH_SIZE, LEARNING_RATE = 64, 3e-3


def load_plans(num: int, held_out: int) -> tuple[Batch, Batch]:
    """Generated plans to train on, and others to measure the model with."""
    plans = encode(generate_plans(num + held_out, seed=0))
    x0, real = plans.x0, plans.real  # Int[B, L] clean ids; Bool[B, L], False at PAD
    return Batch(x0[:num], real[:num]), Batch(x0[num:], real[num:])


def build_model() -> MDLM:
    """A noise process, a network, and the algorithm that trains one to undo the other."""
    # At time t in [0, 1] a token has become MASK with probability 1 - alpha(t) = t.
    process = Absorbing(VOCAB.layout(), LogLinear())
    # Noisy ids Int[B, L] and their noise level Float[B] in, logits Float[B, L, V] out.
    denoiser = BDDenoiser(d_model=64, n_layers=3, n_heads=4, dropout=0.0, vocab_config=VOCAB)
    # The cross-entropy of masked tokens, weighted so that it is a bound on -log p(x0).
    return MDLM(BDDenoiserBackbone(denoiser), process)


def train(model: MDLM, plans: Batch, steps: int, generator: torch.Generator) -> None:
    """Minimise the bound with AdamW on random batches."""
    optimizer = AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.0)
    schedule = OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps)
    model.train()
    for step in range(steps):
        rows = torch.randint(len(plans), (BATCH_SIZE,), generator=generator)  # Int[B]
        batch = Batch(plans.x0[rows], plans.real[rows])  # Int[B, L], Bool[B, L]
        output = model.loss(batch, generator)  # masks x0 and scores what the network makes of it
        optimizer.zero_grad()
        output.loss.backward()  # Float[]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            print(f"step {step:5d}   {output.nelbo.mean():6.2f} nats per plan")  # nelbo Float[B]


@torch.no_grad()
def bound(model: MDLM, plans: Batch, generator: torch.Generator) -> float:
    """An upper bound on -log p(x0), in nats per plan: the mean of the NELBO."""
    return float(model.eval().loss(plans, generator).nelbo.mean())


def sample(model: MDLM, plans: Batch, num: int, generator: torch.Generator) -> Diagrams:
    """New plans, with as many rooms as some of ``plans`` have.

    First-hitting sampling starts from MASK at every real position. It draws when each of them is
    revealed, then reveals one token per network call: exactly the model's own distribution.
    """
    rows = torch.randint(len(plans), (num,), generator=generator)
    drawn = FirstHitting().sample(model, plans.real[rows], generator=generator)
    return Diagrams(decode(drawn.x0))  # Int[B, L]


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--num-plans", type=int, default=5000)
    parser.add_argument("--held-out", type=int, default=500)
    parser.add_argument("--out", type=Path, default=Path("plans.png"), help="the picture")
    options = parser.parse_args(words)

    torch.manual_seed(0)  # the weights that training starts from
    generator = torch.Generator().manual_seed(0)  # every other random number
    plans, held_out = load_plans(options.num_plans, options.held_out)
    model = build_model()
    print(f"{model.num_parameters:,} parameters, {len(plans):,} plans")
    train(model, plans, options.steps, generator)
    print(f"held-out plans: at most {bound(model, held_out, generator):.2f} nats each")
    diagrams = sample(model, plans, 12, generator)
    diagrams.plot(options.out)
    print(f"{diagrams[0]}\n{len(diagrams)} new plans are drawn in {options.out}")


if __name__ == "__main__":
    main()
