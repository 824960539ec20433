"""What is wrong with what a person asked for."""


class AskError(ValueError):
    """The words, a run or a folder cannot be used; the message is one sentence that says what to do."""
