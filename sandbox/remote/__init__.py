"""The judge over HTTP: the server trusts whoever has its token, a client trusts the services that it was given."""

__all__ = ["arrivals", "bearer", "client", "connections", "run_code", "server", "wire"]
