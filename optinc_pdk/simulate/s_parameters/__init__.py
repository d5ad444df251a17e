"""S-parameters of circuits with loops and reflections, and fields inside them."""
