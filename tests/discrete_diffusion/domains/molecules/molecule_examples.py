"""Molecules for tests: a small file of them, its config, and random graphs."""

from __future__ import annotations

import random
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from discrete_diffusion.cli import main
from discrete_diffusion.config.files import shipped_files
from discrete_diffusion.domains.molecules.molecule import Molecule

SMILES = [
    "C",
    "CC",
    "CCO",
    "C=O",
    "C#N",
    "C1CC1",
    "c1ccccc1",
    "c1ccoc1",
    "c1cc[nH]c1",
    "CC(=O)O",
    "CC(C)(C)C",
    "NC=O",
    "C1CCCCC1",
    "OCC=C",
    "FC(F)F",
    "C#CCO",
    "O=C1CCC1",
    "CN(C)C",
    "c1ccncc1",
    "COC",
    "CC(C)=O",
    "C1COC1",
    "NCC(O)=O",
    "CC1CO1",
    "N#CC#N",
    "CCCCCCC",
]


def written(path: Path, *smiles: str) -> str:
    """A list of SMILES as a file."""
    path.write_text("".join(f"{text}\n" for text in smiles or SMILES))
    return str(path)


def molecule_config(name: str = "molecules", **values) -> DictConfig:
    data = OmegaConf.load(shipped_files("data")[name])
    return OmegaConf.create({"data": OmegaConf.merge(data, values)})


def random_graph(generator: random.Random) -> Molecule:
    """Any graph of up to eight atoms, mostly of no valid molecule."""
    num = generator.randint(1, 8)
    atoms = tuple(generator.choice(["C", "N", "O", "F"]) for _ in range(num))
    bonds = [
        (i, j, generator.choice([0, 0, 0, 1, 2]))
        for i in range(num)
        for j in range(i + 1, num)
        if generator.random() < 2 / num
    ]
    return Molecule(atoms, tuple(bonds))


def train(folder: Path, *words: str) -> Path:
    """The folder of a run of a few steps on a few molecules: a network that draws anything."""
    path = written(folder / "some.smi", *SMILES, "C[N+](=O)[O-]", "O=C(O)[C@H](N)C")
    network = ["debug=smoke", "algo.backbone=bd-denoiser", "model=bd_tiny", "logger=none"]
    network += ["model.d_model=16", "model.cond_dim=16"]
    data = ["data=molecules", f"data.path={path}", "data.split=[0.7,0.15,0.15]"]
    main(["train", *network, *data, *words, f"hydra.run.dir={folder}/run"])
    return folder / "run"
