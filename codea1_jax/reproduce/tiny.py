"""The rehearsal: the presets of the smallest model, shrunk until two CPU cores train each of them in a minute."""

from codea1_jax.reproduce.paper_lab import Scale

TINY = "tiny"
PRESETS = "1.5b"  # whose presets are rehearsed
STEPS = 2
SCALE = Scale(
    overrides=(
        *("model.compute_dtype=float32", "model.remat=none", "train.questions=2"),
        *("rollout.engine=core", "rollout.block=8", "rollout.rows=8", "rollout.samples=2", "rollout.suites=2"),
        # Most real prompts are shorter; a question with a longer one is left out.
        *("rollout.code_prompt_tokens=496", "rollout.test_prompt_tokens=1008", "rollout.prefill_tokens=1024"),
        *("rollout.code_tokens=16", "rollout.test_tokens=16"),
        *("code.packing={row_length: 512, micro_batch_tokens: 512}", "code.grpo.mini_batch_questions=1"),
        *("test.packing={row_length: 1024, micro_batch_tokens: 1024}", "test.grpo.mini_batch_questions=1"),
        *("eval.samples=1", "checkpoint.keep_last=1"),
    ),
    samples=2,
    longest=16,
    written_tests=False,
)
