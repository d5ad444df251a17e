"""Transforms of placed instances: a mirror about the x axis, a rotation, and a displacement, in this order."""

from __future__ import annotations

import cmath
import math
from dataclasses import dataclass


@dataclass(frozen=True)
class InstanceTransform:
    """Transform from the coordinates of a cell to those of the layout, as in a gdsfactory netlist.

    Attributes:
        x_um: Displacement along x in µm.
        y_um: Displacement along y in µm.
        rotation_deg: Counterclockwise rotation in degrees, after the mirror.
        mirror: Whether y is negated before the rotation.
    """

    x_um: float = 0.0
    y_um: float = 0.0
    rotation_deg: float = 0.0
    mirror: bool = False

    def apply(self, x_um: float, y_um: float) -> tuple[float, float]:
        """Return the position in the layout of a point of the cell, both in µm."""
        z = complex(x_um, -y_um if self.mirror else y_um)
        # multiples of 90° are exact, so that positions stay on the grid
        z *= 1j ** int(self.rotation_deg // 90 % 4) * cmath.exp(1j * math.radians(self.rotation_deg % 90))
        return self.x_um + z.real, self.y_um + z.imag

    def after(self, inner: InstanceTransform) -> InstanceTransform:
        """Return the transform that applies ``inner`` first: that of an instance within a placed cell."""
        x, y = self.apply(inner.x_um, inner.y_um)
        turn = -inner.rotation_deg if self.mirror else inner.rotation_deg
        return InstanceTransform(x, y, (self.rotation_deg + turn) % 360, self.mirror != inner.mirror)
