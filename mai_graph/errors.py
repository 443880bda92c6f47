"""Every exception that MAI Graph raises on purpose; catch `MAIError` to catch them all."""


class MAIError(Exception):
    """Base of all errors of this package."""


class InputError(MAIError, ValueError):
    """The question, its images, options or settings can't be used; raised before any model is called.

    Attributes:
        field: Where the value stands, e.g. ``images[0]``.
        problem: What is wrong, with the value.
        remedy: What to do about it.
    """

    def __init__(self, field: str, problem: str, remedy: str) -> None:
        super().__init__(field, problem, remedy)
        self.field, self.problem, self.remedy = field, problem, remedy

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}. {self.remedy}"


class ConfigError(InputError):
    """A setting of the graph or of the servers is wrong; raised while the graph is made or a run starts."""


class UnavailableError(MAIError):
    """No model gave an answer; the message names each one's address and what happened."""
