"""Projects as the API names them: by path (`lab/nlp`), or by id."""

from rest_framework.exceptions import ValidationError

from portal.common.errors import FieldError, NotFound
from portal.projects.models import Project, User
from portal.projects.selectors import project_by_path, projects_visible


def project_by_reference(*, user: User, reference: str) -> Project:
    """The project with that path, or with that id, among those that the person may see."""
    try:
        return project_by_path(user=user, path=reference)
    except NotFound:
        by_id = reference.isascii() and reference.isdigit() and len(reference) <= 18
        found = projects_visible(user=user).filter(pk=int(reference)).first() if by_id else None
        if found is None:
            raise
        return found


def project_of_parameter(*, user: User, name: str, value: str) -> Project:
    """The project that a parameter of the query string names; a wrong name is a wrong parameter, not a lost page."""
    try:
        return project_by_reference(user=user, reference=value.strip("/"))
    except NotFound as error:
        raise ValidationError({name: [error.detail]}, code="unknown_project") from None


def project_of_body(*, user: User, name: str, value: str) -> Project:
    """The project that a field of a body names: 404 on that field if the person may not see it."""
    try:
        return project_by_reference(user=user, reference=value.strip("/"))
    except NotFound as error:
        error.errors = [FieldError(name, each.code, each.detail) for each in error.errors]
        raise
