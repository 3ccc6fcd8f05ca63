"""What ends a run though nothing is wrong with it."""


class Interrupted(Exception):
    """The process was asked to stop; the message names the signal."""
