"""Prometheus metrics of the service, in their own registry."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from codea1_jax.serve.driver import Driver


class Metrics:
    """Counts of the HTTP requests, and the Driver's state, which gRPC's requests are part of."""

    def __init__(self, driver: Driver, slots: int) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter("codea1_requests", "HTTP requests by status", ["path", "status"], registry=registry)
        self.prompt_tokens = Counter("codea1_prompt_tokens", "tokens of prompts", registry=registry)
        self.drawn_tokens = Counter("codea1_drawn_tokens", "tokens drawn for answers", registry=registry)
        self.seconds = Histogram("codea1_request_seconds", "time to the end of an answer", ["path"], registry=registry)
        Gauge("codea1_slots", "prompts that are decoded at once", registry=registry).set(slots)
        watched = Gauge("codea1_open_orders", "orders that wait or are being decoded", registry=registry)
        watched.set_function(lambda: driver.open_orders)
        watched = Gauge("codea1_waiting_orders", "orders that are not prefilled yet", registry=registry)
        watched.set_function(lambda: driver.waiting_orders)

    def text(self) -> bytes:
        """All of them in Prometheus' text format."""
        return generate_latest(self._registry)
