"""Stand-ins for the two models: they answer a prompt with what a script says, and remember what they were asked."""

from collections.abc import Iterator, Mapping, Sequence

from game_config import game_config

from codea1_jax.config import Config, Reading
from codea1_jax.game.players import PolicyPlayer
from codea1_jax.game.prompts import Prompt, plain_prompts
from codea1_jax.game.round import Game
from codea1_jax.models.tokenizer import micro_tokenizer
from codea1_jax.rollout import Completion, Request
from data_pipeline import Problem
from sandbox import Judge

TOKENIZER = micro_tokenizer(["def ", "return ", "assert "])
PROMPTS = plain_prompts(TOKENIZER)
CONFIG = game_config()


def asked(question: str) -> Problem:
    """A problem that asks this."""
    return Problem("asked", question, "", "", ())


class Scripted:
    """A model in one role. It answers the last request first: nobody may count on an order."""

    def __init__(self, answers: Mapping[Prompt, Sequence[str]]) -> None:
        self._answers = answers
        self.asked: list[Request] = []

    def __call__(self, requests: Sequence[Request]) -> Iterator[tuple[int, tuple[Completion, ...]]]:
        self.asked.extend(requests)
        for i in reversed(range(len(requests))):
            texts = self._answers[requests[i].prompt]
            assert len(texts) >= requests[i].samples
            yield i, tuple(_completion(text) for text in texts[: requests[i].samples])


def silent(*_how_far: object) -> None:
    """Shows nobody how far an evaluation is."""


def _completion(text: str) -> Completion:
    """A fence that is opened and never closed means that the response was cut off."""
    finished = text.count("```") % 2 == 0
    tokens = TOKENIZER.encode(text) + (TOKENIZER.eos_ids if finished else ())
    return Completion(tokens, (0.0,) * len(tokens), finished)


def scripted_game(
    judge: Judge,
    programs: Mapping[str, Sequence[str]],
    suites: Mapping[tuple[str, str], Sequence[str]],
    config: Config = CONFIG,
    longest_prompt: int = 10_000,
    reading: Reading = "commonmark",
) -> Game:
    """Two scripted models and a real judge.

    `programs` maps a question's text to the Code LLM's responses; `suites` maps (question, program) to the Test
    LLM's: it can only find them if it is shown the question and the program.
    """
    code = Scripted({PROMPTS.code(asked(question)): said for question, said in programs.items()})
    test = Scripted({PROMPTS.test(asked(question), program): said for (question, program), said in suites.items()})
    players = (PolicyPlayer(sample, PROMPTS, TOKENIZER.decode, longest_prompt, reading) for sample in (code, test))
    return Game(*players, judge, config, PROMPTS)


def requests_of(player: PolicyPlayer | None) -> list[Request]:
    """What a scripted player was asked so far."""
    assert player is not None
    assert isinstance(player.sample, Scripted)
    return player.sample.asked
