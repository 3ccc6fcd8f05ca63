"""The game of Code-A1: prompts, one round of play, its rewards and its mistake book."""

from codea1_jax.game.prompts import Prompts
from codea1_jax.game.records import Page, PlayedQuestion
from codea1_jax.game.round import Round, Rules, Speaker, Table, play_round

__all__ = ["Page", "PlayedQuestion", "Prompts", "Round", "Rules", "Speaker", "Table", "play_round"]
