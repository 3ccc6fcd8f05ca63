"""A trained policy as a service: JetStream's Driver and its gRPC service over this project's engine, and OpenAI's HTTP.

    HTTP (`http`) ──► orders ──►┐
                                ├─► Driver (`driver`): prefill, insert, generate ──► jobs: text, stops ──► channels
    gRPC (`grpc_service`) ─────►┘

Both go through the one queue of one Driver, so their samples are decoded together. Needs the extras `serve` and
`jetstream`.
"""
