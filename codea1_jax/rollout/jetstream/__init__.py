"""The rollout as a JetStream engine. Needs the extra `jetstream`."""
