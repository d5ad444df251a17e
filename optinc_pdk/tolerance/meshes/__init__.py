"""Meshes of imperfect devices without a layout, for networks too large to extract."""
