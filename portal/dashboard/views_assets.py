"""plotly.js as it lies in the wheel: one file, compressed once, kept by browsers for good."""

import gzip
import importlib.metadata
import importlib.util
from functools import cache
from pathlib import Path

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_safe

PLOTLY_VERSION = importlib.metadata.version("plotly")


@cache
def plotly_source() -> bytes:
    """The whole bundle: a partial one silently draws the trace types that it lacks as something else."""
    spec = importlib.util.find_spec("plotly")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("plotly is not installed")
    return (Path(next(iter(spec.submodule_search_locations))) / "package_data" / "plotly.min.js").read_bytes()


@cache
def plotly_gzipped() -> bytes:
    return gzip.compress(plotly_source(), compresslevel=6, mtime=0)


@require_safe
def plotly(request: HttpRequest, version: str) -> HttpResponse:
    """The version stands in the address, so that the answer never changes."""
    if version != PLOTLY_VERSION:
        raise Http404
    zipped = "gzip" in request.headers.get("Accept-Encoding", "")
    response = HttpResponse(plotly_gzipped() if zipped else plotly_source(), content_type="text/javascript")
    if zipped:
        response["Content-Encoding"] = "gzip"
    response["Cache-Control"] = "public, max-age=31536000, immutable"
    patch_vary_headers(response, ["Accept-Encoding"])
    return response
