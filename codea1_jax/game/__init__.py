"""The game of Code-A1: prompts, players, one round of play, its rewards and its mistake book."""

__all__ = [
    "export",
    "judging",
    "outcomes",
    "players",
    "prompts",
    "rewards",
    "rollouts",
    "round",
    "suites",
    "tasks",
    "validation",
]
