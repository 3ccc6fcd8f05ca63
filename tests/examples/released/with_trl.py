"""Trains a step with TRL's GRPOTrainer and the reward of examples/. Each token of the tiny model is a whole program."""

import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer
from trl_reward import passed_tests

RIGHT, HALF, LIES = "def double(x): return x + x", "def double(x): return 4", "import os; print('passed'); os._exit(0)"
REWARDS = {RIGHT: 1.0, HALF: 0.5, LIES: 0.0, "<eos>": 0.0, "question": 0.0, "<pad>": 0.0, "": 0.0}

words = {word: number for number, word in enumerate(["<pad>", "<eos>", "question", RIGHT, HALF, LIES])}
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="question")), pad_token="<pad>", eos_token="<eos>"
)
torch.manual_seed(0)
shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
model = Qwen2ForCausalLM(Qwen2Config(vocab_size=len(words), num_key_value_heads=2, **shape))
seen = []


def recorded(completions, **columns):
    rewards = passed_tests(completions=completions, **columns)
    seen.extend(zip(completions, rewards, strict=True))
    return rewards


tests = ["assert double(2) == 4", "assert double('a') == 'aa'"]
with tempfile.TemporaryDirectory() as folder:
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=recorded,
        args=GRPOConfig(
            output_dir=folder,
            max_steps=2,
            per_device_train_batch_size=16,
            num_generations=16,
            max_completion_length=1,
            use_cpu=True,
            bf16=False,
            report_to=[],
            logging_steps=1,
        ),
        train_dataset=Dataset.from_dict({"prompt": ["question"] * 8, "tests": [tests] * 8}),
        processing_class=tokenizer,
    )
    trainer.train()
assert len(seen) == 32 and {reward for _, reward in seen} == {0.0, 0.5, 1.0}, seen
assert all(REWARDS[text] == reward for text, reward in seen), seen
logged = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
assert abs(sum(logged) / 2 - sum(reward for _, reward in seen) / 32) < 1e-5, (logged, seen)
print("trained")
