"""What a chip can be built for: a network that averages words, any other network, or a matrix."""
