"""What a run leaves to others: cards, uploads to the Hugging Face Hub, and what other tools read."""
