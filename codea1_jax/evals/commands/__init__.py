"""What `codea1 eval` does: resumable evaluations, each in a folder of its own."""
