"""What is resident while rollouts are sampled: how much, and what suits a configuration."""

from dataclasses import dataclass, replace

from codea1_jax.config import RolloutConfig

LEAST_ROWS = 8  # of a shard, for which a program is made: with fewer, a step takes as long, or nearly
RESIDENT = 3  # resident prompts for every prompt that would fill rows alone: stragglers, and those that come next


@dataclass(frozen=True)
class Capacity:
    """What is resident at once, and the few shapes for which programs are compiled.

    Keys and values lie in pages of `block` tokens. A prompt's pages are shared by all of its samples; a sample owns
    the pages of what it has drawn.

    rows: samples decoded at once, of whichever resident prompts.
    slots: prompts resident at once: those being decoded for, and those whose samples wait for rows.
    width: the most samples of one prompt decoded at once.
    pages: of the cache. A shard's must hold at least one longest prompt and one longest response.
    prompt_buckets: ascending prompt lengths in tokens; the last one is the longest prompt accepted.
    response_buckets: ascending response lengths in tokens, multiples of `block`; the last one is the longest
        response.
    block: tokens decoded between two looks of the host, and tokens of a page.
    prefill_buckets: ascending lengths of a shard's prefill, into which prompts are packed, in whole pages; a longest
        prompt fits the last one.
    batch_shards: into that many the mesh splits rows, slots and pages, which must be multiples.

    At most len(prefill_buckets) prefill programs and, for each kind of sampling used (greedy, plain,
    filtered), len(row_buckets) * len(prompt_buckets) * len(response_buckets) decoding programs are ever compiled.
    """

    rows: int
    slots: int
    width: int
    pages: int
    prompt_buckets: tuple[int, ...]
    response_buckets: tuple[int, ...]
    block: int
    prefill_buckets: tuple[int, ...]
    batch_shards: int = 1

    def __post_init__(self) -> None:
        if self.pages // self.batch_shards < self.most_pages:
            raise ValueError(
                f"pages={self.pages} must be at least {self.most_pages * self.batch_shards}, for one longest prompt "
                f"and response in each of {self.batch_shards} shards"
            )

    @property
    def row_buckets(self) -> tuple[int, ...]:
        """Ascending numbers of rows that a block may decode: a quarter, unless those are few, and all."""
        each = self.rows // self.batch_shards
        quarter = -(-each // 4) * self.batch_shards
        return (quarter, self.rows) if quarter >= LEAST_ROWS * self.batch_shards else (self.rows,)

    @property
    def prompt_pages(self) -> int:
        return pages_of(self.prompt_buckets[-1], self.block)

    @property
    def response_pages(self) -> int:
        return self.response_buckets[-1] // self.block - 1

    def columns(self, prompt: int, drawn: int) -> tuple[int, int]:
        """The pages of prompts and responses that a block reads; tokens of the longest `prompt`, and `drawn` so far."""
        of_prompts = pages_of(bucket_of(prompt, self.prompt_buckets), self.block)
        return of_prompts, bucket_of(drawn + self.block, self.response_buckets) // self.block - 1

    @property
    def most_pages(self) -> int:
        return self.prompt_pages + self.response_pages


def pages_of(tokens: int, block: int) -> int:
    return -(-tokens // block)


def bucket_of(length: int, buckets: tuple[int, ...]) -> int:
    for bucket in buckets:
        if length <= bucket:
            return bucket
    raise ValueError(f"length {length} exceeds the largest bucket {buckets[-1]}")


def capacity_of(
    rollout: RolloutConfig, shards: int, prompts: int, samples: int, prompt: int, response: int, *, replicas: int = 1
) -> Capacity:
    """What suits `prompts` of `samples` each, over a mesh that splits a batch into `shards`; lengths in tokens.

    replicas: of the mesh, each of which has the rows and the pages that the configuration states.
    Prompts may be resident before there are rows for them, and stay until the last of their samples is complete.
    """

    def whole(count: int) -> int:
        return -(-count // shards) * shards

    # A prompt's samples are decoded in the shard that holds it: with few prompts, some shards have rows to spare.
    rows = whole(min(rollout.rows * replicas, whole(prompts) * samples))
    width = min(samples, rows // shards)
    of_prompts = buckets(prompt)
    waiting = max(rows // 4, rollout.prefill_tokens // of_prompts[-1])  # prompts, at least a prefill's
    slots = whole(min(prompts, RESIDENT * rows // width, rows + waiting))
    pages = pages_of(of_prompts[-1], rollout.block)  # of a longest prompt
    full = max(pages, min(pages_of(rollout.prefill_tokens, rollout.block), slots // shards * pages))
    one = Capacity(
        rows=rows,
        slots=slots,
        width=width,
        pages=shards * (pages + pages_of(response, rollout.block)),
        prompt_buckets=of_prompts,
        response_buckets=buckets(response, multiple=rollout.block),
        block=rollout.block,
        prefill_buckets=(full * rollout.block,),
        batch_shards=shards,
    )
    needed = one.slots * one.prompt_pages + one.rows * one.response_pages
    held = needed if rollout.cache_tokens is None else min(needed, rollout.cache_tokens * replicas // rollout.block)
    return replace(one, pages=max(whole(held), shards * one.most_pages))


def buckets(longest: int, *, smallest: int = 128, multiple: int = 16) -> tuple[int, ...]:
    """`longest` rounded up to a multiple, and successive quarters of it down to `smallest`, ascending.

    Each bucket costs a compilation, so short sequences share one.
    """
    each = [-(-longest // multiple)]
    while each[-1] > 1 and (quarter := -(-each[-1] // 4)) * multiple >= smallest:
        each.append(quarter)
    return tuple(count * multiple for count in reversed(each))
