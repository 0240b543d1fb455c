"""Add the configs of installed packages to the search path of this package."""

from __future__ import annotations

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin

from discrete_diffusion.config.files import CONFIG_GROUP, config_dir
from discrete_diffusion.config.plugins import packages_of


class ConfigsOfPackages(SearchPathPlugin):
    """Adds packages that the entry points of ``discrete_diffusion.configs`` name; other programs
    of this environment that use Hydra keep their own search paths."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        ours = str(config_dir())
        if any(str(part.path).removeprefix("file://") == ours for part in search_path.get_path()):
            for package in packages_of(CONFIG_GROUP):
                search_path.append(provider=package, path=f"pkg://{package}")
