"""One exception tree: each error has a code, an HTTP status and the fields that it speaks of."""

from dataclasses import dataclass


@dataclass(frozen=True)
class FieldError:
    """One complaint. `attr` is the field's name ("" for the whole), `detail` a sentence with the bound."""

    attr: str
    code: str
    detail: str


class CommonsError(Exception):
    """Base: what went wrong, for whom it is meant, and what to do, in words."""

    status = 500
    code = "error"

    def __init__(self, detail: str, *, attr: str = "", code: str = "") -> None:
        super().__init__(detail)
        self.errors = [FieldError(attr, code or self.code, detail)]

    @property
    def detail(self) -> str:
        return " ".join(error.detail for error in self.errors)


class Refused(CommonsError):
    """400: the input breaks a rule. `Refused.many` carries several fields at once."""

    status = 400
    code = "invalid"

    @classmethod
    def many(cls, errors: list[FieldError]) -> "Refused":
        refusal = cls(errors[0].detail)
        refusal.errors = list(errors)
        return refusal


class Forbidden(CommonsError):
    """403: may be seen, may not be done."""

    status = 403
    code = "permission_denied"


class NotFound(CommonsError):
    """404: does not exist, or may not be seen."""

    status = 404
    code = "not_found"


class Moved(NotFound):
    """404 under its old name: `old` is what was asked for, `new` what it is called now."""

    code = "moved"

    def __init__(self, detail: str, *, old: str, new: str, attr: str = "") -> None:
        super().__init__(detail, attr=attr)
        self.old, self.new = old, new


class Conflict(CommonsError):
    """409: based on a version that is no longer current. `current_version` says which is."""

    status = 409
    code = "conflict"

    def __init__(self, detail: str, *, attr: str = "", code: str = "", current_version: int | None = None) -> None:
        super().__init__(detail, attr=attr, code=code)
        self.current_version = current_version


class Unavailable(CommonsError):
    """503: database or broker is away; nothing was saved."""

    status = 503
    code = "unavailable"
