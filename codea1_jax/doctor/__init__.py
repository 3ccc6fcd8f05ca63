"""What is here and what is missing: of a host, and for a run. The text behind `codea1 doctor`.

`host` imports nothing of the accelerator stack before it knows that its versions match; `run` needs all of it.
"""
