"""Files of features where plans are expected."""

from __future__ import annotations

from pathlib import Path

_ZARR = (".zgroup", "zarr.json")


def refuse_features(path: str | Path) -> None:
    """``ValueError`` for an ``.npz`` file or a zarr folder, with the commands that read them."""
    path = Path(path)
    marked = path.suffix == ".zarr" or any((path / name).is_file() for name in _ZARR)
    if path.is_dir() and marked:
        raise ValueError(
            f"{path} is a table of regions, not a file of plans; it is read by 'discrete-diffusion "
            f"train algo=masked-features data.path={path}'"
        )
    if path.suffix == ".npz" and path.is_file():
        raise ValueError(
            f"{path} is a table of regions or rows of features, not a file of plans; a table is "
            f"read by 'discrete-diffusion train algo=masked-features data.path={path}', windows of "
            f"rows to fill by 'discrete-diffusion sample checkpoint=FILE given={path}'"
        )
