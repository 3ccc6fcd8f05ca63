"""transformers' `generate`, in static batches. Arguments: the bench's directory, sequences per batch."""

import sys
from pathlib import Path

import torch
from rollout_worker import MODEL, Workload, answer
from transformers import Qwen2ForCausalLM

PAD = 0


def main() -> None:
    directory, size = Path(sys.argv[1]), int(sys.argv[2])
    model = Qwen2ForCausalLM.from_pretrained(directory / MODEL, dtype=torch.float32).eval()

    def play(workload: Workload) -> None:
        for prompts, steps in workload.static_batches(size):
            longest = max(map(len, prompts))
            tokens = torch.tensor([[PAD] * (longest - len(p)) + p for p in prompts])
            mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
            out = model.generate(
                tokens,
                attention_mask=mask,
                do_sample=True,
                temperature=1.0,
                top_k=0,
                top_p=1.0,
                max_new_tokens=steps,
                pad_token_id=PAD,
            )
            assert out.shape == (len(prompts), longest + steps)

    answer(directory, play)


if __name__ == "__main__":
    main()
