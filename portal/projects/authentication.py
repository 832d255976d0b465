"""API tokens: a visible prefix, a digest at rest, an expiry and a scope."""

import hashlib

from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.request import Request

from portal.projects.models import ApiToken, User

KEYWORDS = {"token", "bearer"}
READ_METHODS = {"GET", "HEAD", "OPTIONS"}


def token_digest(secret: str) -> str:
    """SHA-256 in hex: a token has 160 random bits, so a slow hash would add nothing."""
    return hashlib.sha256(secret.encode()).hexdigest()


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Token …` or `Bearer …`."""

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        parts = get_authorization_header(request).decode("latin-1").split()
        if not parts or parts[0].lower() not in KEYWORDS:
            return None
        if len(parts) != 2:
            raise AuthenticationFailed("The Authorization header must be 'Token' or 'Bearer', a blank, and the token.")
        token = ApiToken.objects.select_related("user").filter(digest=token_digest(parts[1])).first()
        now = timezone.now()
        if token is None or token.revoked_at is not None or not token.user.is_active:
            raise AuthenticationFailed("This token is not known, or was revoked.")
        if token.expires_at is not None and token.expires_at <= now:
            raise AuthenticationFailed(f"This token expired at {token.expires_at.isoformat()}.")
        if token.scope == "read" and request.method not in READ_METHODS:
            raise PermissionDenied("This token may only read.")
        if token.last_used_at is None or (now - token.last_used_at).total_seconds() > 60:
            ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
        return token.user, token
