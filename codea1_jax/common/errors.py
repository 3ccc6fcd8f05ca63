class UserError(ValueError):
    """Input that cannot be used. The message is one line that names the cause and the fix; exit code 2."""


class Interrupted(BaseException):
    """The process was asked to stop; the message names the signal.

    As KeyboardInterrupt no Exception: it may be raised anywhere, also where a library, such as logging, drops those.
    """
