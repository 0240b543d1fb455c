"""Files and pictures of floor plans, a module for each format; ``readers`` reads them all."""

FORMAT_NAMES = ("dxf", "ifc", "pdf", "svg", "geojson", "houseganpp", "rlvr")
"""Names of ``realised_files.FORMATS``, whose modules need shapely."""
