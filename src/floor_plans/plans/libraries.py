"""Libraries of the extra ``plans``, each imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discrete_diffusion.config import Later

if TYPE_CHECKING:
    import ezdxf as ezdxf
    import shapely as shapely
    from shapely import affinity as affinity
else:
    ezdxf, shapely, affinity = map(Later, ("ezdxf", "shapely", "shapely.affinity"))
