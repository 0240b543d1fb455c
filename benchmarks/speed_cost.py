"""What a training step and a network call cost against n, L, batch and steps, for ``speed.py``; and
the flat and the pair denoiser side by side, by number of rooms.

Random legal tokens: the arithmetic does not read them. The width is that of ``bd_small``; the
networks side by side are the presets ``bd_small`` and ``bd_pair_small``, of nearly as many
parameters, untrained, on diagrams that fill all their slots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.optim import AdamW

from clock import Spent, exponent, interleaved, rates, seconds_each, timed
from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.categorical import make_generator, sample_categorical
from discrete_diffusion.cli import compose
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import TokenLayout, VocabConfig
from discrete_diffusion.models import build_backbone
from discrete_diffusion.models.bd_denoiser import BDDenoiser, BDDenoiserBackbone
from discrete_diffusion.models.dit import DiT
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import FirstHitting, sample_in_batches
from discrete_diffusion.sampling import Model as SampledModel
from record import markdown_table
from speed_variants import CLIP, precision

COST_STREAM = 50
WIDTH, LAYERS, HEADS = 128, 4, 4
CHARACTERS = 100
ROOMS = 7
"""Where it is not what varies."""
NETWORKS = ("bd-denoiser", "bd-denoiser-pair")
"""Side by side; the first is what the other is compared with."""


@dataclass(frozen=True)
class Sizes:
    """Sizes to measure at. ``rooms``: pairs (n_max, rooms); ``beside``: pairs (rooms, diagrams) for
    both networks, with ``beside_calls`` of a work in one repeat."""

    rooms: tuple[tuple[int, int], ...]
    lengths: tuple[int, ...]
    batches: tuple[int, ...]
    steps: tuple[int, ...]
    rooms_batch: int
    lengths_batch: int
    steps_batch: int
    beside: tuple[tuple[int, int], ...]
    beside_calls: int


FULL = Sizes(
    rooms=((8, 4), (8, 5), (8, 6), (8, 7), (8, 8), (12, 12), (16, 16), (20, 20)),
    lengths=(64, 128, 256, 512),
    batches=(16, 64, 256, 1024),
    steps=(4, 8, 16, 28),
    rooms_batch=64,
    lengths_batch=16,
    steps_batch=256,
    beside=((4, 256), (6, 256), (8, 256), (16, 64), (32, 8), (64, 2)),
    beside_calls=4,
)
GPU = replace(
    FULL,
    rooms_batch=1024,
    lengths_batch=256,
    batches=(256, 1024, 4096, 16384),
    beside=((4, 4096), (6, 4096), (8, 4096), (16, 1024), (32, 128), (64, 16)),
    beside_calls=8,
)
QUICK = Sizes(
    rooms=((8, 4), (8, 8)),
    lengths=(16, 32),
    batches=(4, 16),
    steps=(2, 4),
    rooms_batch=8,
    lengths_batch=4,
    steps_batch=8,
    beside=((4, 8), (8, 8)),
    beside_calls=1,
)


class Model:
    """An MDLM of fixed width on a layout, with its optimiser and a batch to use it on."""

    def __init__(
        self, layout: TokenLayout, backbone: nn.Module, real: torch.Tensor, device: torch.device
    ) -> None:
        generator = make_generator(COST_STREAM)
        x0 = sample_categorical(layout.uniform_log_probs().expand(len(real), -1, -1), generator)
        x0 = x0.masked_fill(~real, layout.pad_id or 0)
        self.algorithm = MDLM(backbone, Absorbing(layout, LogLinear()))
        self.batch = self.algorithm.prepare_batch(Batch(x0, real)).to(device)
        self.algorithm.to(device)
        self.parameters = list(self.algorithm.parameters())
        self.optimizer = AdamW(self.parameters, fused=True)
        self.generator = make_generator(COST_STREAM, 1, device=device)

    @classmethod
    def of_diagrams(cls, n_max: int, rooms: int, num: int, device: torch.device) -> Model:
        vocab = VocabConfig(n_max=n_max)
        denoiser = BDDenoiser(
            d_model=WIDTH, n_layers=LAYERS, n_heads=HEADS, vocab_config=vocab, dropout=0.0
        )
        real = vocab.real_positions(torch.full((num,), rooms))
        return cls(vocab.layout(), BDDenoiserBackbone(denoiser), real, device)

    @classmethod
    def of_text(
        cls,
        length: int,
        num: int,
        device: torch.device,
        computed: Callable[[DiT], nn.Module] | None = None,
    ) -> Model:
        """``computed``: what takes the network's place; None: the network itself."""
        layout = TokenLayout.flat(length, CHARACTERS + 2, mask_id=CHARACTERS, pad_id=CHARACTERS + 1)
        network = DiT(
            vocab_size=layout.vocab_size,
            hidden_size=WIDTH,
            n_blocks=LAYERS,
            n_heads=HEADS,
            dropout=0.0,
            pad_id=layout.pad_id,
        )
        real = torch.ones(num, length, dtype=torch.bool)
        backbone = network if computed is None else computed(network)
        return cls(layout, backbone, real, device)

    def train(self) -> None:
        """A training step."""
        self.algorithm.train()
        self.algorithm.loss(self.batch, self.generator).loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad()

    @torch.no_grad()
    def call(self) -> None:
        """A network call on all-masked tokens, as a sampler makes it."""
        self.algorithm.eval()
        real, layout = self.batch.real, self.algorithm.layout
        x = self.batch.x0.masked_fill(real, layout.mask_id)
        t = torch.ones(len(x), dtype=torch.float64, device=x.device)
        self.algorithm.denoise(x, t, real, self.batch.conditions)

    def sample(self, steps: int) -> None:
        """First-hitting sampling in so many calls."""
        real = self.batch.real.cpu()
        sample_in_batches(
            SampledModel(self.algorithm, FirstHitting(), steps=steps),
            real,
            generator=self.generator,
        )


WORKS: dict[str, Callable[[Model], None]] = {
    "training_step": Model.train,
    "network_call": Model.call,
}


def cost(sizes: Sizes, device: torch.device, *, repeats: int) -> dict[str, Any]:
    """Seconds by size and the exponents fitted to them, in CPU-seconds, or seconds of a GPU."""
    of_rooms = {
        float(rooms): Model.of_diagrams(n_max, rooms, sizes.rooms_batch, device)
        for n_max, rooms in sizes.rooms
    }
    of_lengths = {
        float(length): Model.of_text(length, sizes.lengths_batch, device)
        for length in sizes.lengths
    }
    of_batches = {float(num): Model.of_diagrams(8, ROOMS, num, device) for num in sizes.batches}
    by_rooms = _table(of_rooms, device, repeats)
    tokens = [rooms * (rooms + 1) / 2 for rooms in of_rooms]
    by_rooms["tokens"] = tokens
    for name in WORKS:
        by_rooms[f"{name}_fit_in_tokens"] = exponent(tokens, _clocked(by_rooms[name], device))
    by_rooms["n_max"] = [n_max for n_max, _ in sizes.rooms]
    return {
        "repeats": repeats,
        "rooms": {"batch": sizes.rooms_batch, **by_rooms},
        "length": {"batch": sizes.lengths_batch, **_table(of_lengths, device, repeats)},
        "batch": {"rooms": ROOMS, **_table(of_batches, device, repeats)},
        "steps": _by_steps(sizes, device, repeats),
    }


def _table(models: dict[float, Model], device: torch.device, repeats: int) -> dict[str, Any]:
    """A training step and a network call at every size."""
    out: dict[str, Any] = {"sizes": list(models)}
    for name, work in WORKS.items():
        works = {size: partial(work, model) for size, model in models.items()}
        seconds = seconds_each(works, device, repeats)
        out[name] = list(seconds.values())
        out[f"{name}_fit"] = exponent(list(models), _clocked(out[name], device))
        print(f"{name} at {list(models)}: {out[f'{name}_fit']}", flush=True)
    return out


def _by_steps(sizes: Sizes, device: torch.device, repeats: int) -> dict[str, Any]:
    """First-hitting sampling of one batch, by its number of network calls."""
    model = Model.of_diagrams(8, ROOMS, sizes.steps_batch, device)
    works = {float(steps): partial(model.sample, steps) for steps in sizes.steps}
    seconds = list(seconds_each(works, device, repeats).values())
    return {
        "batch": sizes.steps_batch,
        "rooms": ROOMS,
        "sizes": list(works),
        "sampling": seconds,
        "sampling_fit": exponent(list(works), _clocked(seconds, device)),
    }


def _clocked(seconds: Sequence[dict[str, float]], device: torch.device) -> list[float]:
    return [s["seconds" if device.type == "cuda" else "cpu_seconds"] for s in seconds]


def model_of(
    network: str, n_max: int, num: int, device: torch.device, words: Sequence[str] = ()
) -> Model:
    vocab = VocabConfig(n_max=n_max)
    all_words = [f"algo.backbone={network}", f"data.max_nodes={n_max}", *words, "model.dropout=0"]
    backbone = build_backbone(compose("train", all_words), vocab.vocab_size)
    return Model(vocab.layout(), backbone, vocab.real_positions(torch.full((num,), n_max)), device)


def networks(sizes: Sizes, device: torch.device, *, repeats: int, bfloat16: bool) -> dict[str, Any]:
    """Diagrams per second of a training step and of a network call, and the ratio to the flat one;
    the exponents of the seconds per diagram against n."""
    rows, fits = [], []
    for narrow in (False, True) if bfloat16 else (False,):
        for name, work in WORKS.items():
            costs: dict[str, list[float]] = {network: [] for network in NETWORKS}
            for n_max, num in sizes.beside:
                models = {network: model_of(network, n_max, num, device) for network in NETWORKS}
                runs = {
                    network: _several(partial(work, model), num, sizes.beside_calls, narrow, device)
                    for network, model in models.items()
                }
                for run in runs.values():  # caches, allocator
                    run(0)
                spent = interleaved(runs, repeats)
                for network in NETWORKS:
                    found = rates(spent[network], spent[NETWORKS[0]])
                    clock = "per_second" if device.type == "cuda" else "per_cpu_second"
                    costs[network].append(1 / found[clock])
                    row = {"network": network, "work": name, "bfloat16": narrow, "rooms": n_max}
                    rows.append({**row, "batch": num, **found})
            for network in NETWORKS:
                fit = exponent([n_max for n_max, _ in sizes.beside], costs[network])
                fits.append({"network": network, "work": name, "bfloat16": narrow, **fit})
    return {"repeats": repeats, "calls": sizes.beside_calls, "rows": rows, "fits": fits}


def _several(
    work: Callable[[], None], num: int, calls: int, bfloat16: bool, device: torch.device
) -> Callable[[int], Spent]:
    def several() -> int:
        with precision(bfloat16, device):
            for _ in range(calls):
                work()
        return num * calls

    return lambda repeat: timed(several, device)


def cost_table(found: Mapping[str, Any]) -> str:
    rooms, length, batch, steps = (found[k] for k in ("rooms", "length", "batch", "steps"))
    names = ("training_step", "network_call")
    parts = [
        f"Rooms: batches of {rooms['batch']}; {_fits(rooms, names, 'n', '_fit')}; "
        f"{_fits(rooms, names, 'L', '_fit_in_tokens')}.",
        _seconds(["rooms", "tokens L"], [rooms["sizes"], rooms["tokens"]], rooms, names),
        f"Plain sequences through `dit`: batches of {length['batch']}; "
        f"{_fits(length, names, 'L', '_fit')}.",
        _seconds(["L"], [length["sizes"]], length, names),
        f"Batch: {batch['rooms']} rooms; {_fits(batch, names, 'B', '_fit')}.",
        _seconds(["batch"], [batch["sizes"]], batch, names),
        f"Network calls of first-hitting: {steps['batch']} diagrams of {steps['rooms']} rooms; "
        f"{_fits(steps, ('sampling',), 'calls', '_fit')}.",
        _seconds(["calls"], [steps["sizes"]], steps, ("sampling",)),
    ]
    return "\n\n".join(parts)


def _fits(found: Mapping[str, Any], names: Sequence[str], symbol: str, suffix: str) -> str:
    words = []
    for name in names:
        fit = found[f"{name}{suffix}"]
        power = f"{symbol}^({fit['exponent']:.2f} ± {fit['standard_error']:.2f})"
        words.append(f"{name.replace('_', ' ')} ~ {power}")
    return ", ".join(words)


def _seconds(
    titles: Sequence[str],
    sizes: Sequence[Sequence[float]],
    found: Mapping[str, Any],
    names: Sequence[str],
) -> str:
    head = list(titles)
    for name in names:
        head += [f"{name.replace('_', ' ')}, CPU-ms", "ms"]
    rows = []
    for k in range(len(sizes[0])):
        row = [f"{size[k]:.0f}" for size in sizes]
        for name in names:
            row += [f"{1000 * found[name][k][clock]:.1f}" for clock in ("cpu_seconds", "seconds")]
        rows.append(row)
    return markdown_table(head, rows, left=0)


def networks_table(found: Mapping[str, Any]) -> str:
    flat, pair = dict.fromkeys(row["network"] for row in found["rows"])
    cells = {
        (row["network"], row["rooms"], row["work"], row["bfloat16"]): row for row in found["rows"]
    }
    kinds = list(dict.fromkeys((row["work"], row["bfloat16"]) for row in found["rows"]))
    titles = [f"{work.replace('_', ' ')}, {'bfloat16' if b else 'float32'}" for work, b in kinds]
    rows = []
    for rooms in dict.fromkeys(row["rooms"] for row in found["rows"]):
        line = [str(rooms), str(cells[flat, rooms, *kinds[0]]["batch"])]
        for kind in kinds:
            ratio = cells[pair, rooms, *kind]["per_cpu_second_ratio"]
            times = [1 / ratio[key] for key in ("median", "high", "low")]
            line.append("{:.2f} ({:.2f} to {:.2f})".format(*times))
        rows.append(line)
    fits = {(fit["network"], fit["work"], fit["bfloat16"]): fit for fit in found["fits"]}
    for network in (flat, pair):
        powers = [f"n^{fits[network, *kind]['exponent']:.2f}" for kind in kinds]
        rows.append([f"`{network}`", "fit", *powers])
    facts = (
        f"CPU-seconds per diagram of `{pair}` over those of `{flat}`: medians of "
        f"{found['repeats']} repeats with the lowest and the highest, and powers of the number of "
        "rooms n fitted to the seconds per diagram of each."
    )
    return f"{facts}\n\n{markdown_table(['rooms', 'batch', *titles], rows)}"
