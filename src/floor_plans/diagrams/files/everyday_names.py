"""Everyday names of rooms: words for one room type, and words for several."""

from __future__ import annotations

from collections.abc import Collection

_WORDS = {
    "LivingRoom": "living, lounge, sitting room, family room, drawing room",
    "MasterRoom": "master, master bedroom, main bedroom, primary bedroom, principal bedroom",
    "Kitchen": "kitchenette",
    "Bathroom": "bath, WC, toilet, restroom, washroom, lavatory, shower, shower room, powder room",
    "DiningRoom": "dining, dining area",
    "ChildRoom": "child, child bedroom, children room, children's room, kid's room, nursery",
    "StudyRoom": "study, office, home office, workroom",
    "SecondRoom": "second bedroom, secondary bedroom",
    "GuestRoom": "guest, guest bedroom",
    "Balcony": "terrace, loggia, veranda",
    "Entrance": "entry, entryway, entrance hall, foyer, lobby, vestibule, corridor, hallway",
    "Storage": "store, storeroom, storage room, closet, laundry, laundry room, utility, pantry",
}
"""Words for each room type. A corridor is an Entrance, a closet and a laundry room are Storage, as
in the table of House-GAN."""

_SEVERAL = {
    "bedroom": ("MasterRoom", "SecondRoom", "ChildRoom", "GuestRoom"),
    "bed": ("MasterRoom", "SecondRoom", "ChildRoom", "GuestRoom"),
    "hall": ("LivingRoom", "Entrance"),
    "walk-in": ("Wall-in", "Storage"),
    "walk-in closet": ("Wall-in", "Storage"),
}
"""Words that may mean several room types: the largest bedroom of a plan is its MasterRoom, and a
hall is an entrance or a living room."""


def plain(word: str) -> str:
    """Letters and digits of a word in lower case."""
    return "".join(filter(str.isalnum, word.casefold()))


_NUMBERED = ("bedroom", "bed")
_DIGITS = "0123456789"

_MEANT = {plain(word): name for name, words in _WORDS.items() for word in words.split(", ")}
_MAY_MEAN = {plain(word): names for word, names in _SEVERAL.items()}


def room_type_of(word: str, names: Collection[str]) -> str | None:
    """Room type among ``names`` that a word means in any spelling, such as "Living" and
    "living_room"; None if unknown or ambiguous."""
    own = {plain(name): name for name in names}
    name = own.get(plain(word)) or _MEANT.get(plain(word))
    return name if name in names else None


def strip_number(word: str) -> str:
    """Strip the number from a word such as "Toilet 2", "bedroom|0" or "03 Kitchen"; a word without
    one is returned unchanged."""
    bare = plain(word).strip(_DIGITS)
    return bare if bare and bare != plain(word) else word


def is_numbered_bedroom(word: object) -> bool:
    """True for a bedroom with a number, such as "Bedroom 2"."""
    return isinstance(word, str) and strip_number(word) in _NUMBERED and word not in _NUMBERED


def may_mean(word: str, names: Collection[str]) -> list[str]:
    """Room types among ``names`` that an ambiguous word may mean."""
    return [name for name in _MAY_MEAN.get(plain(word), ()) if name in names]
