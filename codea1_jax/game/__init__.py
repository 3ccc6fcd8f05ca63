"""The game of Code-A1: prompts, players, one round of play, its rewards and its mistake book."""
