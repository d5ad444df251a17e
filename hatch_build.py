"""Build hook: puts the data folders into a wheel, beside the package's modules."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

DATA_FOLDERS = ("components", "netlists")


class DataFolders(BuildHookInterface):  # type: ignore[type-arg]
    """Copies `components/` and `netlists/` into standard wheels.

    An editable install reads them from the checkout; a copy there would go stale and hide later edits.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the folders to `build_data["force_include"]` if `version` is a standard build."""
        if version != "standard":
            return
        for folder in DATA_FOLDERS:
            build_data["force_include"][str(Path(self.root, folder))] = f"optinc_pdk/{folder}"
