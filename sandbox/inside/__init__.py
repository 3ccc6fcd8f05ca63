"""All that runs in the jail, next to programs that may read and rewrite it: trusted with nothing."""
