"""The Dirichlet-to-Neumann map of a conductivity on a mesh, by finite elements."""

from __future__ import annotations

import numpy as np
import torch
from einops import rearrange
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from continuous_states.eit.mesh import Mesh

Floats = NDArray[np.float64]


class DtNSolver:
    """sigma -> Lambda for one mesh, many samples at a time.

    ``div(sigma grad u) = 0`` in the disc, u = f on its boundary. With linear elements (P1), one
    conductivity per triangle and the stiffness matrix

        S_ij = sum over triangles T of  sigma_T  integral over T of  grad phi_i . grad phi_j,

    the boundary nodes b and the inner ones i,

        Lambda = S_bb - S_bi S_ii^-1 S_ib.

    This is the weak form: ``v^T Lambda f`` is the integral of v times the current that flows in at
    voltage f. Lambda is symmetric, positive semi-definite, and its rows sum to 0.

    Inner nodes are eliminated in layers, the farthest from the boundary first: a node shares
    triangles with its own and the neighbouring layers only, so every step is a Cholesky factor of
    one layer (LAPACK, batched) instead of all of S_ii. Float64.
    """

    def __init__(self, mesh: Mesh) -> None:
        self.num_triangles = len(mesh.triangles)
        self._layers = _layers(mesh)
        local = _local_stiffness(mesh)
        self._own = [_block(mesh, local, layer, layer) for layer in self._layers]
        self._outwards = [
            _block(mesh, local, inner, outer)
            for outer, inner in zip(self._layers[:-1], self._layers[1:], strict=True)
        ]

    def solve(self, sigma: Floats) -> Floats:
        """Float64[M, T], positive -> Lambda Float64[M, n, n]."""
        if sigma.ndim != 2 or sigma.shape[1] != self.num_triangles:
            raise ValueError(
                f"sigma has shape {sigma.shape}; expected (M, {self.num_triangles}), a value for "
                "each triangle"
            )
        columns = np.ascontiguousarray(sigma.T)
        last = len(self._layers) - 1
        matrix = self._assemble(self._own[last], columns, last, last)
        for k in range(last - 1, -1, -1):
            factor = torch.linalg.cholesky(matrix)
            coupling = self._assemble(self._outwards[k], columns, k + 1, k)
            half = torch.linalg.solve_triangular(factor, coupling, upper=False)
            matrix = self._assemble(self._own[k], columns, k, k) - half.mT @ half
        return ((matrix + matrix.mT) / 2).numpy()

    def _assemble(self, block: sparse.csr_matrix, columns: Floats, k: int, j: int) -> Tensor:
        """The part of S between layers k and j, Float64[M, len k, len j]."""
        return torch.from_numpy(
            rearrange(np.asarray(block @ columns), "(i j) m -> m i j", i=len(self._layers[k]))
        ).contiguous()


def _layers(mesh: Mesh) -> list[NDArray[np.int64]]:
    """Nodes by the number of edges to the nearest boundary node: n, then the inner ones."""
    rows, columns = _pairs(mesh)
    num = len(mesh.points)
    neighbours = sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(num, num))
    found = np.arange(num) < mesh.num_boundary
    layers = [np.arange(mesh.num_boundary)]
    while not found.all():
        reached = np.zeros(num, dtype=bool)
        reached[neighbours[layers[-1]].indices] = True
        layers.append(np.flatnonzero(reached & ~found))
        found |= reached
    return layers


def _pairs(mesh: Mesh) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and column of the 9 T entries that triangles add to S."""
    return np.repeat(mesh.triangles, 3, axis=1).ravel(), np.tile(mesh.triangles, 3).ravel()


def _local_stiffness(mesh: Mesh) -> Floats:
    """Float64[T, 3, 3]: integral over T of grad phi_i . grad phi_j = e_i . e_j / (4 area), with
    e_i the edge opposite to node i."""
    corners = mesh.points[mesh.triangles]
    edges = np.roll(corners, -1, axis=1) - np.roll(corners, 1, axis=1)
    (x0, y0), (x1, y1) = edges[:, 0].T, edges[:, 1].T
    area = abs(x0 * y1 - y0 * x1) / 2
    return edges @ edges.transpose(0, 2, 1) / (4 * area[:, None, None])


def _block(
    mesh: Mesh, local: Floats, rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> sparse.csr_matrix:
    """(len rows * len columns, T): what each triangle of conductivity 1 adds to a part of S."""
    num, (i, j) = len(mesh.points), _pairs(mesh)
    row, column = np.full(num, -1), np.full(num, -1)
    row[rows], column[columns] = np.arange(len(rows)), np.arange(len(columns))
    inside = (row[i] >= 0) & (column[j] >= 0)
    entry = row[i[inside]] * len(columns) + column[j[inside]]
    triangle = np.repeat(np.arange(len(mesh.triangles)), 9)[inside]
    shape = (len(rows) * len(columns), len(mesh.triangles))
    return sparse.csr_matrix((local.ravel()[inside], (entry, triangle)), shape=shape)
