"""``WishModel``: boxes that meet as many wishes as can be, those of the highest layers first."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from discrete_diffusion.domains.bubble_diagrams.plans.box_model import Boxes
from discrete_diffusion.domains.bubble_diagrams.plans.layers import AREAS_ALONE, NO_LAYER, Layer
from discrete_diffusion.domains.bubble_diagrams.plans.outline_model import OutlineModel
from discrete_diffusion.domains.bubble_diagrams.plans.room_model import Wish


@dataclass(frozen=True)
class _Found:
    """``answer`` of ``solve`` to these ``wishes`` together; if it is true, its boxes and values."""

    wishes: Sequence[Wish] = ()
    answer: bool | None = None
    boxes: Boxes | None = None
    value: Any = None


class WishModel(OutlineModel):
    """Rooms in their outline, and how the wishes about them are met together."""

    misses: int = 0
    """Wishes that the plan does not meet, after ``best``."""
    _asked: Mapping[frozenset[Layer], _Found] = MappingProxyType({})
    """What was found by ``meets``, by the layers left out, until ``best`` begins with it."""

    def meets(self, effort: float, seed: int, without: frozenset[Layer] = NO_LAYER) -> bool | None:
        """True if some plan meets all wishes but those of the layers ``without``, False if none
        does, None if the effort does not do. To be asked before ``best``, which begins with what
        was found."""
        found = self._met_together(self._but(without), effort, seed)
        self._asked = {**self._asked, without: found}
        return found.answer

    def _but(self, without: frozenset[Layer]) -> list[Wish]:
        return [wish for wish in self.wishes if wish.layer not in without]

    def _met_together(self, wishes: Sequence[Wish], effort: float, seed: int) -> _Found:
        """A plan that meets these wishes: one without cuts is looked for first."""
        self.model.clear_objective()
        literals = [wish.literal for wish in wishes]
        uncut = [cut.is_used.negated() for cut in self.cuts]
        tries = [(literals, effort)]
        if uncut:
            tries = [([*literals, *uncut], effort / 3), (literals, 2 / 3 * effort)]
        answer, boxes = None, None
        for fixed, share in tries:
            answer, boxes = self.solve(share, seed=seed, fixed=fixed, taking_turns=True)
            if answer:
                break
        return _Found(wishes, answer, boxes, self.value)

    def _meet_wishes(self, effort: float, seed: int) -> tuple[bool | None, Boxes | None]:
        """Answer of ``solve``, and boxes that meet as many wishes as are found together.

        It begins with the most that ``meets`` found. Otherwise all wishes are tried at once,
        without those that exclude others, unless that was undecided before. Where it does not tell,
        they are added layer by layer; if this loses any but areas, these are looked for by several
        searches that take turns, with another seed, unless they exclude each other.
        """
        asked, self._asked = self._asked, {}
        self.model.clear_objective()
        wishes = sorted(self.wishes, key=lambda wish: wish.layer)
        met = [each for each in asked.values() if each.answer]
        found = max(met, key=lambda each: len(each.wishes), default=_Found())
        if not met and (NO_LAYER not in asked or asked[NO_LAYER].answer is False):
            answer, boxes = self._meet(wishes, effort / 3, seed)
            if answer is not None:
                return answer, boxes
        found = self._by_layers(wishes, found, effort, seed)
        most = self._but(AREAS_ALONE)
        undecided = AREAS_ALONE not in asked or asked[AREAS_ALONE].answer is None
        if not met and undecided and _lost(most, found.wishes):
            again = self._met_together(most, 1.5 * effort, seed + 1)
            if again.answer:
                found = self._by_layers(wishes, again, effort, seed)
        if found.boxes is None:
            return self.solve(2 * effort, seed=seed, taking_turns=True)
        self.value = found.value
        return True, found.boxes

    def _keep_met(self) -> list[Any]:
        """The wishes that the boxes found last meet stay met; literals of the others."""
        met: list[Any] = []
        missed: list[Any] = []
        for wish in self.wishes:
            (met if self.value(wish.literal) else missed).append(wish.literal)
        self.model.add_bool_and(met)
        self.misses = len(missed)
        return missed

    def _by_layers(self, wishes: list[Wish], found: _Found, effort: float, seed: int) -> _Found:
        """Add wishes to those that are ``found`` to be met, layer by layer, the most important
        first, each with a third of the effort; a layer that is not decided is left out."""
        for layer in Layer:
            new = _lost([wish for wish in wishes if wish.layer == layer], found.wishes)
            if not new:
                continue
            tried = [*found.wishes, *new]
            answer, boxes = self._meet(tried, effort / 3, seed, found.boxes)
            if answer:
                found = _Found(tried, answer, boxes, self.value)
        return found

    def _meet(
        self, wishes: list[Wish], effort: float, seed: int, hint: Boxes | None = None
    ) -> tuple[bool | None, Boxes | None]:
        """Answer of ``solve`` with these wishes, from which conflicts are taken out: of those that
        exclude each other one of the lowest layer."""
        left = effort
        while left > 0:
            literals = [wish.literal for wish in wishes]
            answer, boxes = self.solve(left, seed=seed, hint=hint, fixed=literals)
            left -= self.spent
            if answer is not False or not wishes:
                return answer, boxes
            if left <= 0:
                break
            answer, boxes = self.solve(left, seed=seed, hint=hint, assumed=literals)
            left -= self.spent
            if answer is not False or not self.conflict:
                return answer, boxes
            conflict = {literal.index for literal in self.conflict}
            del wishes[max(k for k, literal in enumerate(literals) if literal.index in conflict)]
        return None, None

    def keeps(self, rules: Collection[str], effort: float, seed: int) -> bool | None:
        """True if some plan meets all wishes of these rules beside what plans always do, False if
        the solver shows that none does, None if the effort does not do, or there are no wishes. To
        be asked before ``best``, which adds to the model."""
        literals = [wish.literal for wish in self.wishes if wish.rule in rules]
        return self.solve(effort, seed=seed, fixed=literals)[0] if literals else None

    def excludes(self, without: frozenset[Layer], effort: float, seed: int) -> bool:
        """True if the solver shows that no plan meets all wishes but those of the layers
        ``without``. To be asked before ``best``, which adds to the model."""
        literals = [wish.literal for wish in self._but(without)]
        return self.solve(effort, seed=seed, fixed=literals, taking_turns=True)[0] is False


def _lost(wishes: Sequence[Wish], kept: Sequence[Wish]) -> list[Wish]:
    """Wishes that are not among the kept ones."""
    found = {wish.literal.index for wish in kept}
    return [wish for wish in wishes if wish.literal.index not in found]
