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
    _at_once: _Answer | None = None

    def meets_all(self, effort: float, seed: int) -> bool | None:
        """True if some plan meets all wishes, False if none does, None if the effort does not do:
        one without cuts is looked for first. To be asked before ``best``, which begins with what
        was found."""
        self.model.clear_objective()
        self.model.clear_hints()
        literals = [wish.literal for wish in self.wishes]
        uncut = [cut.is_used.negated() for cut in self.cuts]
        tries = ([*literals, *uncut], effort / 3), (literals, 2 / 3 * effort)
        for fixed, share in tries if uncut else tries[1:]:
            answer, boxes = self.solve(share, seed=seed, fixed=fixed, taking_turns=True)
            if answer:
                break
        self._at_once = _Answer(answer, boxes, self.value)
        return answer

    def _meet_wishes(self, effort: float, seed: int) -> tuple[bool | None, Boxes | None]:
        """Answer of ``solve``, and boxes that meet as many wishes as are found together.

        All are tried at once, without those that exclude others, unless that was undecided before.
        Where it does not tell, they are added layer by layer; what that loses is looked for by
        several searches that take turns: all wishes if only areas are lost, all but areas if more.
        """
        self.model.clear_objective()
        earlier, self._at_once = self._at_once, None
        if earlier is not None and earlier.answer:
            self.value = earlier.value
            return True, earlier.boxes
        wishes = sorted(self.wishes, key=lambda wish: wish.layer)
        if earlier is None or earlier.answer is False:
            answer, boxes = self._meet(wishes, effort / 3, seed)
            if answer is not None:
                return answer, boxes
        kept, boxes, value = self._by_layers(wishes, [], None, effort, seed)
        rules = [wish for wish in wishes if wish.layer != Layer.AREAS]
        aim = rules if _lost(rules, kept) else wishes
        if _lost(aim, kept):
            literals = [wish.literal for wish in aim]
            found = self.solve(1.5 * effort, seed=seed + 1, fixed=literals, taking_turns=True)[1]
            if found is not None:
                kept, boxes, value = self._by_layers(wishes, aim, found, effort, seed)
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
        self, wishes: list[Wish], kept: list[Wish], boxes: Boxes | None, effort: float, seed: int
    ) -> tuple[list[Wish], Boxes | None, Any]:
        """Wishes that are met beside the ``kept`` ones of ``boxes``, added layer by layer, the most
        important first, each with a third of the effort; a layer that is not decided is left out.
        With boxes that meet them, None if there are none, and the solver's values."""
        value = self.value
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
            self.model.clear_hints()
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
