"""The one root of all errors that a user can cause and mend."""


class ArgumentError(ValueError):
    """An argument, a file or a design that is refused before any computing; the message says what to do."""
