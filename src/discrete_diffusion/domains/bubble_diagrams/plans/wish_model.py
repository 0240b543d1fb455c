"""``WishModel``: boxes that meet as many wishes as can be, those of the highest layers first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from discrete_diffusion.domains.bubble_diagrams.plans.box_model import Boxes
from discrete_diffusion.domains.bubble_diagrams.plans.layers import Layer
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
    _of_all: _Found | None = None
    _of_most: _Found | None = None
    """What was found by ``meets_all`` and ``meets_most``, until ``best`` begins with it."""

    @property
    def _most(self) -> list[Wish]:
        """All wishes but those of the layer of areas."""
        return [wish for wish in self.wishes if wish.layer != Layer.AREAS]

    def meets_all(self, effort: float, seed: int) -> bool | None:
        """True if some plan meets all wishes, False if none does, None if the effort does not do.
        To be asked before ``best``, which begins with what was found."""
        self._of_all = self._met_together(self.wishes, effort, seed)
        return self._of_all.answer

    def meets_most(self, effort: float, seed: int) -> bool | None:
        """``meets_all`` but for the layer of areas: they are within half of their targets."""
        self._of_most = self._met_together(self._most, effort, seed)
        return self._of_most.answer

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

        It begins with what ``meets_all`` or ``meets_most`` found. Otherwise all wishes are tried at
        once, without those that exclude others, unless that was undecided before. Where it does not
        tell, they are added layer by layer; if this loses any but areas, these are looked for by
        several searches that take turns, with another seed, unless they exclude each other.
        """
        of_all, of_most, self._of_all, self._of_most = self._of_all, self._of_most, None, None
        self.model.clear_objective()
        wishes = sorted(self.wishes, key=lambda wish: wish.layer)
        found = _Found()
        for earlier in (of_most, of_all):
            if earlier is not None and earlier.answer:
                found = earlier
        if not found.answer and (of_all is None or of_all.answer is False):
            answer, boxes = self._meet(wishes, effort / 3, seed)
            if answer is not None:
                return answer, boxes
        found = self._by_layers(wishes, found, effort, seed)
        if (of_most is None or of_most.answer is None) and _lost(self._most, found.wishes):
            again = self._met_together(self._most, 1.5 * effort, seed + 1)
            if again.answer:
                found = self._by_layers(wishes, again, effort, seed)
        if found.boxes is None:
            return self.solve(2 * effort, seed=seed, taking_turns=True)
        self.value = found.value
        return True, found.boxes

    def _keep_met(self) -> None:
        """The wishes that the boxes found last meet stay met."""
        met = [wish.literal for wish in self.wishes if self.value(wish.literal)]
        self.model.add_bool_and(met)
        self.misses = len(self.wishes) - len(met)

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


def _lost(wishes: Sequence[Wish], kept: Sequence[Wish]) -> list[Wish]:
    """Wishes that are not among the kept ones."""
    found = {wish.literal.index for wish in kept}
    return [wish for wish in wishes if wish.literal.index not in found]
