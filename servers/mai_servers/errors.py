"""What goes wrong while servers are configured, started or watched, in words a user can act on."""


class LaunchError(Exception):
    """The servers can't be started, or one of them died.

    Attributes:
        problem: What is wrong, naming the setting, server or file.
        remedy: What to do about it.
        log: The last lines of the server's log, if it had already started; else empty.
    """

    def __init__(self, problem: str, remedy: str, log: str = "") -> None:
        super().__init__(problem, remedy, log)
        self.problem, self.remedy, self.log = problem, remedy, log

    def __str__(self) -> str:
        text = f"{self.problem}. {self.remedy}"
        return f"{text}\n\nLast lines of its log:\n{self.log}" if self.log else text
