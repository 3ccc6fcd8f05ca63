"""What makes several processes one run: join, gather, agree on a stop, signals, out-of-memory."""
