"""What a chip can be built for: a network that averages words, or a matrix; one interface for the pipeline."""
