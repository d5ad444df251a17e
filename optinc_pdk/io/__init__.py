"""Files: reading with limits, writing that never leaves half a file, and formats: YAML, JSON, .npz, files of a chip."""
