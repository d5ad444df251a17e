"""What a chip is for: a network that averages words, any other network, or a matrix, behind one interface."""
