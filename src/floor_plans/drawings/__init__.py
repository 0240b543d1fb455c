"""Files of plans, a module for each format; ``readers`` reads any of them."""

FORMAT_NAMES = ("dxf", "ifc", "pdf", "svg", "geojson", "wkt", "houseganpp", "rlvr")
"""Names of ``plan_formats.FORMATS``, whose modules need shapely."""
