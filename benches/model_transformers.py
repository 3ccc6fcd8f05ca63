"""Loss and gradient by transformers and torch. Argument: the bench's directory."""

import sys
from pathlib import Path

import numpy as np
import torch
from contenders import REPORTED, turns
from transformers import Qwen2ForCausalLM


def main() -> None:
    directory = Path(sys.argv[1])
    model = Qwen2ForCausalLM.from_pretrained(directory, dtype=torch.float32)
    tokens = torch.from_numpy(np.load(directory / "tokens.npy")).long()

    for _ in turns():
        model.zero_grad()
        loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
        loss.backward()
        if not REPORTED:  # in the first turn, which does not count; torch's sum of squares in float32 is off by 1e-3
            norms = torch.stack([parameter.grad.double().norm() for parameter in model.parameters()])
            REPORTED.update(loss=loss.item(), gradient_norm=norms.norm().item())


if __name__ == "__main__":
    main()
