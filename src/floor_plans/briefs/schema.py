"""JSON Schema of a brief: one property for every key that ``reading`` reads, with an example.

Words are freer in a brief than a schema can say ("two baths"): reading it says what is wrong.
"""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

from floor_plans.briefs.reading import KEYS
from floor_plans.diagrams.vocabulary import RELATIONS, ROOM_GROUPS, ROOM_TYPES
from floor_plans.plans.site import SIDES

Schema = dict[str, Any]


def _listed(items: Schema, least: int = 1, most: int | None = None) -> Schema:
    return {"type": "array", "items": items, "minItems": least} | (
        {} if most is None else {"maxItems": most}
    )


def _by_name(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values, "minProperties": 1}


def _option(**more: Schema) -> Schema:
    """Schema of rules that hold together; ``more``: further keys."""
    keys = {"rooms": _by_name(_ref("number")), "relations": _listed(_ref("rule")), **more}
    return {"anyOf": [_ref("rule"), _closed(keys, "rooms", "relations")]}


def _closed(keys: Schema, *needed: str) -> Schema:
    """Schema of an object with these keys only, and with at least one of ``needed``."""
    either = [{"required": [key]} for key in needed]
    return {"type": "object", "properties": keys, "additionalProperties": False, "anyOf": either}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


_METRES: Schema = {"type": "number"}
_AREA: Schema = {"type": "number", "exclusiveMinimum": 0}
_FREE: Schema = {"type": "number", "minimum": 0}
_FLAG: Schema = {"type": "boolean"}
_SITE = {
    "polygon": _listed(_ref("point"), 3),
    **{"width": _AREA, "depth": _AREA, "street": {"type": ["string", "integer"]}},
    "setbacks": {"anyOf": [_FREE, _listed(_FREE, 3), _closed(dict.fromkeys(SIDES, _FREE), *SIDES)]},
    "coverage": {**_AREA, "maximum": 1},
}

_DEFINITIONS: dict[str, Schema] = {
    "kind": {
        "description": "a room type, a group, or everyday words for one; A|B is either",
        "anyOf": [{"enum": [*ROOM_TYPES, *ROOM_GROUPS]}, {"type": "string", "minLength": 1}],
    },
    "number": {
        "description": "6, 5-7, [5, 7], at least 5, at most 7 or 5+",
        "anyOf": [
            {"type": "integer", "minimum": 0},
            {"type": "string", "pattern": "[0-9]"},
            _listed({"type": "integer", "minimum": 0}, 2, 2),
        ],
    },
    "rule": {
        "description": "[some, every or no] ROOM RELATION ROOM, with a relation such as "
        f"adjacent, {', '.join(RELATIONS[:4])}; in one text or as a list",
        "anyOf": [
            {"type": "string", "pattern": " "},
            _listed(
                {"anyOf": [{"type": ["string", "boolean"]}, _listed({"type": "string"})]}, 3, 4
            ),
        ],
    },
    "options": {**_listed(_ref("option"), 2), "description": "options, of which one holds"},
    "option": _option(),
    "preference": _option(weight={"type": "number", "exclusiveMinimum": 1}),
    "relation": {
        "anyOf": [
            _ref("rule"),
            {"type": "object", "properties": {"any": _ref("options")}, "required": ["any"]},
        ]
    },
    "pairs": _listed(_listed(_ref("kind"), 2, 2)),
    "point": {**_listed(_METRES, 2, 2), "description": "[x, y] in metres, y downwards"},
}

_SCHEMAS: dict[str, tuple[Schema, Any]] = {
    "groups": (_by_name(_listed(_ref("kind"))), {"Wet": ["Bathroom", "Kitchen"]}),
    "num_rooms": (_ref("number"), "5-7"),
    "rooms": (_by_name(_ref("number")), {"Bedroom": 2}),
    "named": (
        _by_name({"anyOf": [_ref("kind"), _listed(_ref("kind"))]}),
        {"parents": "MasterRoom"},
    ),
    "relations": (_listed(_ref("relation")), ["Kitchen adjacent LivingRoom"]),
    "any": (_ref("options"), ["Kitchen adjacent LivingRoom", "Kitchen adjacent DiningRoom"]),
    "should": (
        _listed(
            {
                "anyOf": [
                    _ref("preference"),
                    _by_name({"type": "number"})
                    | {"maxProperties": 1, "propertyNames": {"pattern": " "}},
                ]
            }
        ),
        [{"Kitchen adjacent Balcony": 5}],
    ),
    "max_degree": ({"type": "integer", "minimum": 0}, 5),
    "connected": (_FLAG, True),
    "buildable": (_FLAG, True),
    "realisable": (_FLAG, True),
    "area": (_AREA, 85),
    "outline": (_listed(_ref("point"), 3), [[0, 0], [12, 0], [12, 8], [0, 8]]),
    "front_door": (_ref("point"), [6, 8]),
    "site": (
        _closed(_SITE, "polygon", "width"),
        {"width": 14, "depth": 24, "setbacks": {"front": 5, "left": 3, "right": 3}},
    ),
    "north": (_METRES, 30),
    "areas": (
        _by_name({"anyOf": [_AREA, _listed(_AREA, 2, 2)]}),
        {"MasterRoom": [12, 16], "Kitchen": 8},
    ),
    "doors": (_ref("pairs"), [["Bathroom", "MasterRoom"]]),
    "no_door": (_ref("pairs"), [["Kitchen", "Bathroom"]]),
    "open": (_ref("pairs"), [["Kitchen", "LivingRoom"]]),
    "light": (_listed(_ref("kind")), ["Kitchen", "Bathroom"]),
    "accessible": (_FLAG, True),
}
"""Schema and example of the value of each key."""


def json_schema() -> Schema:
    """Return the JSON Schema of a brief."""
    properties = {}
    for key, described in KEYS.items():
        schema, example = _SCHEMAS[key]
        properties[key] = {"description": described.meaning, **schema, "examples": [example]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Brief of a floor plan",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "minProperties": 1,
        "$defs": _DEFINITIONS,
    }


def print_schema(_: Namespace) -> None:
    """Print the JSON Schema of a brief."""
    print(json.dumps(json_schema(), indent=1))
