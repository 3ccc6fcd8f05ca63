"""What waits in host memory."""

from __future__ import annotations

from pydantic import Field

from codea1_jax.config.section import Section


class OffloadConfig(Section):
    """What lies in the hosts' memory when it is not used; it moves there and back once or twice a step."""

    optimizer: bool = Field(default=False, description="the moments of a policy, except during its optimizer updates")
    reference: bool = Field(default=False, description="the reference, except for its log-probabilities")
