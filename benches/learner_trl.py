"""GRPO updates by TRL's GRPOTrainer, to which completions are handed. Argument: the bench's directory."""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from contenders import turns
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2ForCausalLM, TrainerCallback
from trl import GRPOConfig, GRPOTrainer


class Turns(TrainerCallback):
    def __init__(self) -> None:
        self._turns = turns()

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        if next(self._turns, self) is self:
            raise SystemExit


def number_tokenizer(size: int) -> PreTrainedTokenizerFast:
    core = Tokenizer(models.WordLevel({str(i): i for i in range(size)}, unk_token="0"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="0", eos_token="1", padding_side="left")


def main() -> None:
    directory = Path(sys.argv[1])
    workload = json.loads((directory / "workload.json").read_text())
    samples = len(workload[0]["completions"])
    groups = {" ".join(map(str, group["prompt"])): group for group in workload}
    model = Qwen2ForCausalLM.from_pretrained(directory, dtype=torch.float32)

    def rollout(prompts: list[str], _trainer: GRPOTrainer) -> dict[str, Any]:
        return {
            "prompt_ids": [groups[prompt]["prompt"] for prompt in prompts],
            "completion_ids": [groups[prompt]["completions"][i % samples] for i, prompt in enumerate(prompts)],
            "logprobs": None,
        }

    def reward(prompts: list[str], **_: Any) -> list[float]:
        return [groups[prompt]["rewards"][i % samples] for i, prompt in enumerate(prompts)]

    arguments = GRPOConfig(
        output_dir=str(directory / "trl"),
        per_device_train_batch_size=samples,
        gradient_accumulation_steps=len(workload),
        num_generations=samples,
        max_completion_length=max(len(c) for group in workload for c in group["completions"]),
        beta=0.001,
        epsilon_high=0.28,
        learning_rate=1e-6,
        max_steps=100,
        gradient_checkpointing=False,
        use_cpu=True,
        bf16=False,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = GRPOTrainer(
        model,
        reward,
        args=arguments,
        train_dataset=Dataset.from_dict({"prompt": list(groups)}),
        processing_class=number_tokenizer(model.config.vocab_size),
        callbacks=[Turns()],
        rollout_func=rollout,
    )
    trainer.train()


if __name__ == "__main__":
    main()
