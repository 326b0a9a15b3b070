"""What the compute API says when it can't do what was asked."""

from http import HTTPStatus

_NAMES = {
    400: "badRequest",
    401: "unauthorized",
    403: "forbidden",
    404: "itemNotFound",
    405: "badMethod",
    406: "notAcceptable",
    409: "conflictingRequest",
    501: "notImplemented",
    503: "serviceUnavailable",
}


class Refused(Exception):
    """``status`` is an HTTP code."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    def body(self) -> dict[str, object]:
        """The JSON body."""
        name = _NAMES.get(self.status, "computeFault")
        return {name: {"code": self.status, "message": str(self)}}


def status_line(code: int) -> str:
    """``404 Not Found``."""
    return f"{code} {HTTPStatus(code).phrase}"
