"""Chips with the imperfections of the cards: drawn at random, and what light they let through."""
