"""Call convention of a backbone, read from its ``forward``, and the columns it computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter, Signature, signature
from typing import Any

import torch
from torch import Tensor, nn

CONTRACT = (
    "a backbone is called as forward(x_t, sigma, **conditions): the noisy sample first, under any "
    "name; the noise level by the name sigma, t or timesteps, or else second; conditions by name"
)
OWN_CONDITIONS = frozenset(
    {"group_idxs", "context", "cache", "masked", "noisy", "real", "keep", "encoded", "packing"}
    | {"condition", "component", "states", "document_idxs"}
)
"""Conditions that algorithms, samplers and training give to a backbone that takes them, and facts
of samples (``Domain.conditions``), which no backbone needs; all other conditions come from the
data."""

_NOISE_NAMES = frozenset(
    {"sigma", "sigmas", "t", "ts", "time", "times", "timestep", "timesteps"}
    | {"noise_level", "noise_levels", "noise_labels"}
)
"""Names of the noise level, or of the time that stands for it, in networks."""

_WRAPPED = ("_orig_mod", "module")
"""Attributes that hold the network inside ``torch.compile``, and inside DDP, FSDP and averages."""


@dataclass(frozen=True)
class BackboneCall:
    """Call convention of a backbone: x_t is the first argument, conditions are passed by name.

    The noise level sigma goes to the argument named ``sigma``, else to one named after a time or a
    noise level (``timesteps=None``), else to the second argument. The second argument is not used
    if it has a default (``mask=None`` may be anything), is a mask or is one of ``OWN_CONDITIONS``.

    ``sigma``: name of the argument that gets sigma, None if there is none; ``second``: True if
    sigma is passed by position. ``conditions``: names of the other arguments; ``required``: those
    without a default; ``takes_any``: True if ``forward`` has ``**kwargs``.
    """

    sigma: str | None = None
    second: bool = False
    conditions: frozenset[str] = frozenset()
    required: tuple[str, ...] = ()
    takes_any: bool = False

    @classmethod
    def of(cls, backbone: nn.Module) -> BackboneCall:
        """Read the call convention of a backbone, also of a wrapped backbone.

        Raises ``ValueError``, with the contract, if x_t cannot go in first.
        """
        # x_t is the first argument, unless that can only be given by name
        first, rest = None, [*_signature(backbone).parameters.values()]
        if rest and rest[0].kind not in (Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD):
            first, *rest = rest
        if first is None or first.name in _NOISE_NAMES or any(p.name == "x_t" for p in rest):
            raise ValueError(f"{described(backbone)} does not take x_t first; {CONTRACT}")

        # sigma is one of the others, given by place if it is the second and has another name
        takes_any = any(p.kind is p.VAR_KEYWORD for p in rest)
        rest = [p for p in rest if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        place = _place_of_sigma(rest)
        sigma = place.name if place is not None else "sigma" if takes_any else None
        second = place is not None and (
            place.kind is place.POSITIONAL_ONLY
            or (place is rest[0] and place.kind is not place.KEYWORD_ONLY and sigma != "sigma")
        )

        # the remaining arguments are conditions
        others = [p for p in rest if p.name != sigma]
        return cls(
            sigma=sigma,
            second=second,
            conditions=frozenset(p.name for p in others if p.kind is not p.POSITIONAL_ONLY),
            required=tuple(p.name for p in others if p.default is p.empty),
            takes_any=takes_any,
        )

    def takes(self, condition: str) -> bool:
        """Return True if a condition of that name can be given."""
        return self.takes_any or condition in self.conditions

    def __call__(
        self, backbone: nn.Module, x_t: Tensor, sigma: Tensor | None, conditions: Mapping[str, Any]
    ) -> Tensor:
        """Output tensor of the backbone for x_t at noise levels sigma, Float[B] or None."""
        if self.second:
            output = backbone(x_t, sigma, **conditions)
        elif self.sigma is not None:
            output = backbone(x_t, **{self.sigma: sigma}, **conditions)
        else:
            output = backbone(x_t, **conditions)
        return unwrapped(output, backbone)


def unwrapped(output: Any, backbone: nn.Module) -> Tensor:
    """Take the tensor out of an output: a tensor, an object with ``logits``, a tuple of one tensor.

    Raises ``TypeError`` naming what was returned, for anything else.
    """
    if isinstance(output, Tensor):
        return output
    # networks of other frameworks return objects or tuples
    tensor = getattr(output, "logits", output)
    if isinstance(tensor, tuple | list) and len(tensor) == 1:
        tensor = tensor[0]
    if isinstance(tensor, Tensor):
        return tensor

    # ``a dict of logits, loss``, ``a tuple of 2``, ``a NoneType``
    shown = f"a {type(output).__name__}"
    if isinstance(output, Mapping):
        shown += f" of {', '.join(map(str, output)) or 'nothing'}"
    elif isinstance(output, tuple | list):
        shown += f" of {len(output)}"
    raise TypeError(
        f"{described(backbone)} returned {shown}; expected a tensor, an object with .logits, or a "
        "tuple of one tensor: return the logits alone"
    )


def described(backbone: nn.Module) -> str:
    """Signature of a backbone as text, ``TheirNet.forward(x, mask=None)``."""
    parameters = _signature(backbone).parameters.values()
    plain = Signature([p.replace(annotation=p.empty) for p in parameters])
    return f"{type(_innermost(backbone)).__name__}.forward{plain}"


def _place_of_sigma(rest: Sequence[Parameter]) -> Parameter | None:
    """Find the argument for sigma after x_t: by its name, or the second argument if it fits."""
    reachable = [p for p in rest if p is rest[0] or p.kind is not p.POSITIONAL_ONLY]
    for names in (frozenset({"sigma"}), _NOISE_NAMES):
        if named := [p for p in reachable if p.name in names]:
            return named[0]
    # the second argument stands for sigma unless it is optional
    if not rest or rest[0].kind is Parameter.KEYWORD_ONLY or rest[0].default is not Parameter.empty:
        return None
    is_condition = rest[0].name in OWN_CONDITIONS or "mask" in rest[0].name
    return None if is_condition else rest[0]


def _innermost(backbone: nn.Module) -> nn.Module:
    """Network inside wrappers that pass all arguments on."""
    while True:
        # a wrapper takes *args and **kwargs alone
        inner = [m for name in _WRAPPED if (m := getattr(backbone, name, None)) is not None]
        kinds = {p.kind for p in _own_signature(backbone).parameters.values()}
        if not inner or kinds != {Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD}:
            return backbone
        backbone = inner[0]


def _signature(backbone: nn.Module) -> Signature:
    return _own_signature(_innermost(backbone))


def _own_signature(backbone: nn.Module) -> Signature:
    try:
        return signature(backbone.forward)
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            f"the arguments of {type(backbone).__name__}.forward cannot be read ({error}); call it "
            f"from the forward of an nn.Module; {CONTRACT}"
        ) from error


@dataclass(frozen=True)
class ColumnPacking:
    """The K of L columns that are computed, and the keys among them.

    Columns that are PAD in every sample are left out. With batches bucketed by size that is most of
    the PAD: 6 rooms of at most 8 need 21 of 36 columns, and no attention mask at all.

    ``kept``: indices of the columns, ascending; ``columns``: the same as Int[K], or None if all are
    kept. ``key_mask``: Bool[B, 1, 1, K], False at PAD; None if no kept column holds a PAD.
    """

    length: int
    kept: tuple[int, ...]
    columns: Tensor | None
    key_mask: Tensor | None

    @classmethod
    def full(cls, length: int) -> ColumnPacking:
        """Keep every column, without a mask."""
        return cls(length, tuple(range(length)), None, None)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> ColumnPacking:
        """Copy to another device."""
        return self._each(lambda x: x.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> ColumnPacking:
        """Copy to memory from which a GPU fetches it while the host goes on."""
        return self._each(lambda x: x.pin_memory())

    def _each(self, change: Callable[[Tensor], Tensor]) -> ColumnPacking:
        columns, mask = (None if x is None else change(x) for x in (self.columns, self.key_mask))
        return replace(self, columns=columns, key_mask=mask)

    def pack(self, x: Tensor) -> Tensor:
        """(B, L, ...) -> (B, K, ...)."""
        return x if self.columns is None else x.index_select(1, self.columns)

    def num_kept_before(self, column: int) -> int:
        """Number of kept columns before ``column``."""
        return sum(kept < column for kept in self.kept)

    def unpack(self, x: Tensor, start: int = 0, stop: int | None = None) -> Tensor:
        """Put kept columns among ``start..stop-1`` at their positions, 0 in columns left out.

        (B, k, C) -> (B, stop - start, C).
        """
        if self.columns is None:
            return x
        # the kept columns of this range, moved to its start
        stop = self.length if stop is None else stop
        first, last = self.num_kept_before(start), self.num_kept_before(stop)
        full = x.new_zeros(x.shape[0], stop - start, x.shape[2])
        return full.index_copy(1, self.columns[first:last] - start, x)


def pack_columns(real: Tensor) -> ColumnPacking:
    """Packing of a batch that holds data where ``real`` (Bool[B, L]) is True.

    Shapes depend on the data here, so 2 L flags are copied to the host: the only such copy in a
    forward pass, and none if the backbone is given a packing that was made on the host. In an
    export, whose shapes are fixed, every column is kept and PAD is masked.
    """
    length = real.shape[1]
    if torch.compiler.is_exporting():
        return ColumnPacking(length, tuple(range(length)), None, _key_mask(real))
    some, every = torch.stack([real.any(dim=0), real.all(dim=0)]).tolist()
    kept = tuple(column for column in range(length) if some[column])

    # an empty batch, or nothing but PAD: nothing to leave out, nothing to protect
    if not kept:
        return ColumnPacking.full(length)
    columns = None if len(kept) == length else torch.tensor(kept, device=real.device)

    # a mask is needed only where a kept column holds both data and PAD
    if some == every:
        return ColumnPacking(length, kept, columns, None)
    keys = real if columns is None else real.index_select(1, columns)
    return ColumnPacking(length, kept, columns, _key_mask(keys))


def _key_mask(real: Tensor) -> Tensor:
    """Bool[B, K] -> Bool[B, 1, 1, K]. All True for a sample that is all PAD, because a softmax over
    no keys is undefined."""
    return (real | ~real.any(dim=1, keepdim=True))[:, None, None, :]
