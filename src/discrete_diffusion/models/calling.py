"""Call convention of a backbone, read off the signature of its ``forward`` when it is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

CONTRACT = (
    "a backbone is called as forward(x_t, sigma, **conditions): the noisy sample first, whatever "
    "it is called there; the noise level by the name sigma, t or timesteps, or else second; "
    "conditions by name"
)
OWN_CONDITIONS = frozenset(
    {"group_idxs", "context", "cache", "masked", "noisy", "real", "keep", "encoded", "packing"}
    | {"condition", "component", "states", "document_idxs"}
)
"""Conditions that algorithms, samplers and training give a backbone that takes them, and facts of
samples (``Domain.conditions``), which no backbone needs; others are the data's."""

_NOISE_NAMES = frozenset(
    {"sigma", "sigmas", "t", "ts", "time", "times", "timestep", "timesteps"}
    | {"noise_level", "noise_levels", "noise_labels"}
)
"""Names that networks have for the noise level, or for the time that stands for it."""

_WRAPPED = ("_orig_mod", "module")
"""Where ``torch.compile``, and DDP, FSDP and averages, keep the network that they call."""


@dataclass(frozen=True)
class BackboneCall:
    """The call of a backbone: x_t first, sigma by its name or else second, conditions by name.

    Without an argument named sigma, it is the one named after a time or a noise level
    (``timesteps=None``), else the second, unless that has a default (``mask=None`` may be anything)
    or is a mask or one of ``OWN_CONDITIONS``.

    ``sigma``: its name there, None if it has no place; ``second``: it goes in by place, not by
    name. ``conditions``: names of the other arguments; ``required``: those without a default;
    ``takes_any``: conditions of any name.
    """

    sigma: str | None = None
    second: bool = False
    conditions: frozenset[str] = frozenset()
    required: tuple[str, ...] = ()
    takes_any: bool = False

    @classmethod
    def of(cls, backbone: nn.Module) -> BackboneCall:
        """Call convention of a backbone, or of what wraps one.

        Raises ``ValueError``, with the contract, if x_t cannot go in first.
        """
        first, rest = None, [*_signature(backbone).parameters.values()]
        if rest and rest[0].kind not in (Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD):
            first, *rest = rest
        if first is None or first.name in _NOISE_NAMES or any(p.name == "x_t" for p in rest):
            raise ValueError(f"{described(backbone)} does not take x_t first; {CONTRACT}")
        takes_any = any(p.kind is p.VAR_KEYWORD for p in rest)
        rest = [p for p in rest if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        named = {p.name: p for p in rest if p.kind is not p.POSITIONAL_ONLY}
        place = _place_of_sigma(rest)
        sigma = place.name if place is not None else "sigma" if takes_any else None
        second = place is not None and (
            place.kind is place.POSITIONAL_ONLY
            or (place is rest[0] and place.kind is not place.KEYWORD_ONLY and sigma != "sigma")
        )
        return cls(
            sigma=sigma,
            second=second,
            conditions=frozenset(name for name in named if name != sigma),
            required=tuple(p.name for p in rest if p.name != sigma and p.default is p.empty),
            takes_any=takes_any,
        )

    def takes(self, condition: str) -> bool:
        """True if a condition of that name can be given."""
        return self.takes_any or condition in self.conditions

    def __call__(
        self, backbone: nn.Module, x_t: Tensor, sigma: Tensor | None, conditions: Mapping[str, Any]
    ) -> Tensor:
        """The backbone's output for x_t at noise levels sigma, Float[B] or None, ``unwrapped``."""
        if self.second:
            output = backbone(x_t, sigma, **conditions)
        elif self.sigma is not None:
            output = backbone(x_t, **{self.sigma: sigma}, **conditions)
        else:
            output = backbone(x_t, **conditions)
        return unwrapped(output, backbone)


def unwrapped(output: Any, backbone: nn.Module) -> Tensor:
    """The tensor that a backbone's ``forward`` returned: itself, the ``logits`` of an object that
    has them, or the only item of a tuple or list.

    Raises ``TypeError``, which says what came, for anything else.
    """
    from torch import Tensor

    if isinstance(output, Tensor):
        return output
    found = getattr(output, "logits", output)
    if isinstance(found, tuple | list) and len(found) == 1:
        found = found[0]
    if isinstance(found, Tensor):
        return found
    raise TypeError(
        f"{described(backbone)} returned {_kind_of(output)}; expected a tensor, an object with "
        ".logits, or a tuple of one tensor: return the logits alone"
    )


def described(backbone: nn.Module) -> str:
    """Signature in words, ``TheirNet.forward(x, mask=None)``."""
    parameters = _signature(backbone).parameters.values()
    plain = Signature([p.replace(annotation=p.empty) for p in parameters])
    return f"{type(_written(backbone)).__name__}.forward{plain}"


def _kind_of(output: Any) -> str:
    """``a dict of logits, loss``, ``a tuple of 2``, ``a NoneType``."""
    kind = type(output).__name__
    if isinstance(output, Mapping):
        return f"a {kind} of {', '.join(map(str, output)) or 'nothing'}"
    return f"a {kind} of {len(output)}" if isinstance(output, tuple | list) else f"a {kind}"


def _place_of_sigma(rest: Sequence[Parameter]) -> Parameter | None:
    """Among the arguments behind x_t."""
    reached = [p for p in rest if p is rest[0] or p.kind is not p.POSITIONAL_ONLY]
    for names in (frozenset({"sigma"}), _NOISE_NAMES):
        if found := [p for p in reached if p.name in names]:
            return found[0]
    if not rest or rest[0].kind is Parameter.KEYWORD_ONLY or rest[0].default is not Parameter.empty:
        return None
    other = rest[0].name in OWN_CONDITIONS or "mask" in rest[0].name
    return None if other else rest[0]


def _written(backbone: nn.Module) -> nn.Module:
    """The network inside of those that hand everything on."""
    while True:
        inner = [m for name in _WRAPPED if (m := getattr(backbone, name, None)) is not None]
        kinds = {p.kind for p in _read(backbone).parameters.values()}
        if not inner or kinds != {Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD}:
            return backbone
        backbone = inner[0]


def _signature(backbone: nn.Module) -> Signature:
    return _read(_written(backbone))


def _read(backbone: nn.Module) -> Signature:
    try:
        return signature(backbone.forward)
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            f"the arguments of {type(backbone).__name__}.forward cannot be read ({error}); call it "
            f"from the forward of an nn.Module; {CONTRACT}"
        ) from error
