"""Sample a checkpoint of text in shards, by torchrun or by Ray Data, on any number of processes.

    torchrun --nproc-per-node=8 examples/shards.py CHECKPOINT FOLDER [--samples 10000] [--size 500]
    python examples/shards.py CHECKPOINT FOLDER --ray 8

Shard k is ``sample(seed=k)``, so any number of processes gives the same samples. A file
``part-K.jsonl`` appears when it is whole; the same command goes on where it was interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from discrete_diffusion import load
from discrete_diffusion.runtime import atomic_write


class Shards:
    """A model in one process, which samples shards into a folder.

    ``made.json`` there has the checkpoint, ``--samples`` and ``--size``; others are refused.
    """

    def __init__(self, checkpoint: str, folder: str, num: int, size: int) -> None:
        device = f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if torch.cuda.is_available() else "cpu"
        self.model = load(checkpoint, device=device)
        self.folder, self.num, self.size = Path(folder), num, size
        self.folder.mkdir(parents=True, exist_ok=True)
        made, note = json.dumps([checkpoint, num, size]), self.folder / "made.json"
        if note.exists() and note.read_text() != made:
            raise ValueError(
                f"{folder} has shards of {note.read_text()}, not of {made}; give another"
            )
        with atomic_write(note) as unfinished:
            unfinished.write_text(made)

    def sample(self, shard: int) -> str:
        """Path of a shard, which is sampled unless its file is there."""
        path = self.folder / f"part-{shard:05d}.jsonl"
        if not path.exists():
            texts = self.model.sample(min(self.size, self.num - shard * self.size), seed=shard)
            with atomic_write(path) as unfinished:
                unfinished.write_text("".join(json.dumps(text) + "\n" for text in texts))
        return str(path)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """A batch of Ray Data: paths of shards by their numbers."""
        return {"path": [self.sample(int(shard)) for shard in batch["id"]]}


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkpoint")
    parser.add_argument("folder", type=lambda path: str(Path(path).absolute()))
    parser.add_argument("--samples", type=int, default=10_000, help="in all shards")
    parser.add_argument("--size", type=int, default=500, help="samples of a shard")
    parser.add_argument("--ray", type=int, metavar="N", help="N workers of Ray Data")
    options = parser.parse_args(words)
    given = (options.checkpoint, options.folder, options.samples, options.size)
    num_shards = -(-options.samples // options.size)
    if options.ray is None:
        # torchrun's processes take turns; without torchrun there is one
        first, step = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        shards = Shards(*given)
        for shard in range(first, num_shards, step):
            shards.sample(shard)
        return
    import ray

    # half a CPU each leaves one to the tasks of Ray itself
    needs = {"num_gpus": 1} if torch.cuda.is_available() else {"num_cpus": 0.5}
    workers = {"concurrency": options.ray, "batch_size": 1, **needs}
    numbers = ray.data.range(num_shards)
    numbers.map_batches(Shards, fn_constructor_args=given, **workers).materialize()


if __name__ == "__main__":
    main()
