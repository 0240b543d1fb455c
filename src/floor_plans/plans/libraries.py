"""Libraries of the extra ``plans``, each imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discrete_diffusion.config import Later

if TYPE_CHECKING:
    import ezdxf as ezdxf
    import shapely as shapely
else:
    ezdxf, shapely = Later("ezdxf"), Later("shapely")
