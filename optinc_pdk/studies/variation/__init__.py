"""Sampled chips: device parameters drawn from the distributions of the cards, and the optical response that follows."""
