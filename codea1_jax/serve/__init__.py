"""A trained policy as a service: OpenAI's HTTP and JetStream's gRPC over one rollout.

    HTTP (`http`) ──► orders ──►┐
                                ├─► `Batcher`: schedule, prefill, decode ──► text, stops ──► channels
    gRPC (`grpc_service`) ─────►┘

Samples of all requests are decoded together and share the pages of one cache. Needs the extras `serve` and
`jetstream`.
"""
