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
class _Answer:
    """Of ``solve``, with the solver's values of that time."""

    answer: bool | None
    boxes: Boxes | None
    value: Any


class WishModel(OutlineModel):
    """Rooms in their outline, and how the wishes about them are met together."""

    misses: int = 0
    """Wishes that the plan does not meet, after ``best``."""
    _of_all: _Answer | None = None
    _of_most: _Answer | None = None
    """Answers of ``meets_all`` and ``meets_most``, until ``best`` begins with what was found."""

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

    def _met_together(self, wishes: Sequence[Wish], effort: float, seed: int) -> _Answer:
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
        return _Answer(answer, boxes, self.value)

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
        kept, boxes, value = list[Wish](), None, None
        for found, met in ((of_most, self._most), (of_all, wishes)):
            if found is not None and found.answer:
                kept, boxes, value = met, found.boxes, found.value
        if not kept and (of_all is None or of_all.answer is False):
            answer, boxes = self._meet(wishes, effort / 3, seed)
            if answer is not None:
                return answer, boxes
        kept, boxes, value = self._by_layers(wishes, kept, boxes, value, effort, seed)
        if (of_most is None or of_most.answer is None) and _lost(self._most, kept):
            again = self._met_together(self._most, 1.5 * effort, seed + 1)
            if again.answer:
                kept, boxes, value = self._by_layers(
                    wishes, self._most, again.boxes, again.value, effort, seed
                )
        if boxes is None:
            return self.solve(2 * effort, seed=seed, taking_turns=True)
        self.value = value
        return True, boxes

    def _keep_met(self) -> None:
        """The wishes that the boxes found last meet stay met."""
        met = [wish.literal for wish in self.wishes if self.value(wish.literal)]
        self.model.add_bool_and(met)
        self.misses = len(self.wishes) - len(met)

    def _by_layers(
        self,
        wishes: list[Wish],
        kept: list[Wish],
        boxes: Boxes | None,
        value: Any,
        effort: float,
        seed: int,
    ) -> tuple[list[Wish], Boxes | None, Any]:
        """Wishes that are met beside the ``kept`` ones of ``boxes``, added layer by layer, the most
        important first, each with a third of the effort; a layer that is not decided is left out.
        With boxes that meet them, None if there are none, and the solver's values."""
        for layer in Layer:
            new = _lost([wish for wish in wishes if wish.layer == layer], kept)
            if not new:
                continue
            tried = [*kept, *new]
            answer, found = self._meet(tried, effort / 3, seed, boxes)
            if answer:
                kept, boxes, value = tried, found, self.value
        return kept, boxes, value

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
