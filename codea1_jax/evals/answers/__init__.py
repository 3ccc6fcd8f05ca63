"""Who answers in an evaluation: players of policies, endpoints and recorded samples, and what they are asked."""
