"""Words through chip and board: detection, electronics, saturation, noise."""
