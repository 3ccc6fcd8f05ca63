"""The judge over HTTP: the server trusts whoever has its token, a client trusts the service that it was given."""

__all__ = ["bearer", "client", "http_service", "run_code", "server", "wire"]
