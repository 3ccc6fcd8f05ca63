"""What makes several processes one run: joining, sharing what each knows, agreeing on a stop, signals, out-of-memory."""
