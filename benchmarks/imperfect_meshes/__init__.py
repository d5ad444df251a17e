"""Meshes of imperfect devices without a layout, for networks that are too large to extract."""
