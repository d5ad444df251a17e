"""S-parameters of circuits with loops and reflections, and the fields inside these circuits."""
