"""A body whose length isn't said beforehand is refused: it would be read as an empty one."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, JsonResponse

LENGTH_REQUIRED = 411
DETAIL = "Say the length of the body in Content-Length: one sent in chunks is not read."


class LengthRequiredMiddleware:
    """411 for a body in chunks."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if "HTTP_TRANSFER_ENCODING" not in request.META or request.META.get("CONTENT_LENGTH"):
            return self.get_response(request)
        if not request.path.startswith("/api/"):
            return HttpResponse(DETAIL, status=LENGTH_REQUIRED, content_type="text/plain; charset=utf-8")
        problem = {
            "type": "urn:gpu-commons:problem:length_required",
            "title": "The length of the body is missing",
            "status": LENGTH_REQUIRED,
            "detail": DETAIL,
            "errors": [{"attr": None, "code": "length_required", "detail": DETAIL}],
        }
        return JsonResponse(problem, status=LENGTH_REQUIRED, content_type="application/problem+json")
