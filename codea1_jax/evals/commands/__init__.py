"""What `codea1 eval` does: resumable evaluations, each in its own folder."""
