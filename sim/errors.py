"""The one kind of error a user can cause: what was got, what was expected, what to do."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # what a service or a file says must not steer a terminal


class InputError(ValueError):
    """Bad input. Printed as one line by the commands, which then exit with status 2.

    Parameters
    ----------
    what
        The thing that is wrong, by the name the user knows it under (``policy.tau``).
    got, expected
        The value met, and what would have been accepted.
    todo
        What to do about it. May be empty when ``expected`` says it all.
    """

    status = 2

    def __init__(self, what: str, got: object, expected: str, todo: str = "") -> None:
        self.what, self.got, self.expected, self.todo = what, got, expected, todo
        text = f"{what}: got {got}, expected {expected}"
        line = " ".join((f"{text}; {todo}" if todo else text).split())
        super().__init__(_CONTROL.sub("?", line))

    def __reduce__(self) -> tuple[type, tuple[str, object, str, str]]:
        return type(self), (self.what, self.got, self.expected, self.todo)


class RunError(InputError):
    """What was asked for is right, but could not be done this time. Printed like bad input; status 1."""

    status = 1
