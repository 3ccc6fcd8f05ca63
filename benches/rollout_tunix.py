"""google-tunix's sampler, in static batches. Arguments: the bench's directory, sequences per batch.

Its cache is as long as the workload needs: its attention scans all of it, so a longer one would slow it down.
"""

import json
import sys
from pathlib import Path

from rollout_worker import MODEL, Workload, answer
from tunix.generate.sampler import CacheConfig, Sampler
from tunix.models.qwen2.model import ModelConfig
from tunix.models.qwen2.params import create_model_from_safe_tensors

PAD, NEVER = 0, -1


class Numbers:
    def encode(self, text: str) -> list[int]:
        return list(map(int, text.split()))

    def decode(self, tokens: list[int]) -> str:
        return " ".join(map(str, tokens))

    def bos_id(self) -> int:
        return 0  # none is put before a prompt

    def eos_id(self) -> int:
        return NEVER

    def pad_id(self) -> int:
        return PAD


def read_config(directory: Path) -> ModelConfig:
    config = json.loads((directory / "config.json").read_text())
    return ModelConfig(
        num_layers=config["num_hidden_layers"],
        vocab_size=config["vocab_size"],
        embed_dim=config["hidden_size"],
        hidden_dim=config["intermediate_size"],
        num_heads=config["num_attention_heads"],
        head_dim=config["head_dim"],
        num_kv_heads=config["num_key_value_heads"],
        rope_theta=config["rope_theta"],
        norm_eps=config["rms_norm_eps"],
        use_tied_embedding=config["tie_word_embeddings"],
    )


def main() -> None:
    directory, size = Path(sys.argv[1]), int(sys.argv[2])
    config = read_config(directory / MODEL)
    model = create_model_from_safe_tensors(str(directory / MODEL), config)
    samplers: dict[int, Sampler] = {}

    def sampler(columns: int) -> Sampler:
        if columns not in samplers:
            cache = CacheConfig(columns, config.num_layers, config.num_kv_heads, config.head_dim)
            samplers[columns] = Sampler(model, Numbers(), cache)
        return samplers[columns]

    def play(workload: Workload) -> None:
        longest = max(map(len, workload.prompts))
        steps = max(map(max, workload.lengths))
        for prompts, needed in workload.static_batches(size):
            out = sampler(longest + steps)(
                [" ".join(map(str, prompt)) for prompt in prompts],
                max_generation_steps=needed,
                max_prompt_length=longest,
                temperature=1.0,
                top_p=1.0,
                eos_tokens=[NEVER],
            )
            assert {len(tokens) for tokens in out.tokens} == {needed}

    answer(directory, play)


if __name__ == "__main__":
    main()
