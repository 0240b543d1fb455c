"""-log p of held-out samples under samplers of a model, and its bound by orders.

    python benchmarks/likelihood.py [--num 80] [--orders 16] [--samplers NAME ...] [--threads 1]
        [--model CHECKPOINT --name NAME] [--ar CHECKPOINT]

Of the model in the box, or of a checkpoint, such as one that ``standard_sets.py --keep`` kept;
``--ar``: beside it -log p of the same samples by a model of ``algo=ar``, of the same data.
Writes ``benchmarks/results/likelihood.json``, or ``likelihood_NAME.json``, and its section of the
docs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch

from discrete_diffusion import load
from discrete_diffusion.domains import domain_of
from discrete_diffusion.evaluation import EvaluateRequest, held_out_rows, standard_error
from discrete_diffusion.evaluation.model_scores import bound_of_orders, numbers_up_to
from discrete_diffusion.sampling.likelihood import (
    order_draws,
    order_log_probs,
    random_order_log_probs,
)
from discrete_diffusion.sampling.unmasking import ONE_PATH
from record import Part, Record, Sections, command_line, markdown_table, publish, typed

SEED, AUTOREGRESSIVE = 0, "ar"


def measure(
    checkpoint: str, num: int, orders: int, samplers: Sequence[str], ar: str | None = None
) -> dict[str, Any]:
    """By quantity: mean, standard error, and how much less than the bound of one order, paired."""
    model = load(checkpoint)
    config = model.sample.checkpoint.config.data
    data = domain_of(config).build(config)
    examples = data.splits["test"]
    batch = examples[held_out_rows(EvaluateRequest(num_held_out=num), len(examples))].batch()
    start = time.process_time()
    log_p = torch.stack(
        [
            random_order_log_probs(model, batch, order_draws(batch.real, k, (SEED,)))
            for k in range(orders)
        ]
    )
    seconds = {"orders": time.process_time() - start}
    found = {f"{n} orders": bound_of_orders(log_p, n) for n in numbers_up_to(orders)}
    one = found.pop("1 orders")
    values = {"1 order": one, **found}
    for order in samplers:
        start = time.process_time()
        values[order] = -order_log_probs(model, batch, order)
        seconds[order] = time.process_time() - start
    if ar is not None:
        start = time.process_time()
        values[AUTOREGRESSIVE] = -order_log_probs(load(ar), batch, "left-to-right")
        seconds[AUTOREGRESSIVE] = time.process_time() - start
    return {
        "num": len(batch),
        "of": domain_of(config).title,
        "tokens": float(batch.real.sum(dim=1).double().mean()),
        "seconds": seconds,
        "rows": {
            name: {
                "mean": float(value.mean()),
                "error": standard_error(value),
                "below": float((one - value).mean()),
                "below_error": standard_error(one - value),
            }
            for name, value in values.items()
        },
    }


def sections(record: Record) -> Sections:
    found, rows = record.results, []
    for name, row in found["rows"].items():
        below = f"{row['below']:.3f} ± {row['below_error']:.3f}"
        if name == AUTOREGRESSIVE:
            what = "-log p, another network: `algo=ar`"
        else:
            what = f"bound, {name}" if "order" in name else f"-log p, `{name}`"
        of_one = "" if name == "1 order" else below
        rows.append((what, f"{row['mean']:.3f} ± {row['error']:.3f}", of_one))
    of = found.get("of", "diagrams")
    head = ("", "nats per sample", "below one order")
    seconds = found["seconds"]
    own = max(value for name, value in seconds.items() if name != "orders")
    about = (
        f"{found['num']} held-out samples of {of}, on "
        f"average {found['tokens']:.1f} tokens; {seconds['orders']:.0f} CPU-seconds for the "
        f"orders, at most {own:.0f} for each sampler. ± is a standard error over samples; "
        "differences are paired."
    )
    return {(Part.LIKELIHOOD, record.name): f"{about}\n\n{markdown_table(head, rows)}"}


def main() -> None:
    parser = command_line(__doc__, threads=1)
    parser.add_argument("--num", type=int, default=80, help="held-out samples")
    parser.add_argument("--orders", type=int, default=16)
    parser.add_argument("--samplers", nargs="+", default=ONE_PATH, choices=ONE_PATH)
    parser.add_argument("--model", default="plans-small")
    parser.add_argument("--name", help="of the results of another model")
    parser.add_argument("--ar", help="a model of algo=ar")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    results = measure(given.model, given.num, given.orders, given.samplers, given.ar)
    name = f"likelihood_{given.name}" if given.name else "likelihood"
    publish(name, command=typed(), seed=SEED, results=results)


if __name__ == "__main__":
    main()
