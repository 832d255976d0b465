"""The portal's REST API over HTTP: one request at a time, and what its refusals say in words."""

import os
import time
from collections.abc import Iterator
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from portal.cli.errors import RefusedError, UnreachableError, UsageError

URL_DEFAULT = "http://127.0.0.1:8000"
PAGE_ROWS = 500
AWAY = {502, 503, 504}
RETRY_AFTER_SECONDS = (0.5, 1.0, 2.0)
LOOPBACK = {"localhost", "127.0.0.1", "::1"}


class Client:
    """Speaks to the portal that COMMONS_URL names, as the person whose token COMMONS_TOKEN is."""

    def __init__(self, url: str, token: str, transport: httpx.BaseTransport | None = None) -> None:
        self.url = url.rstrip("/")
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise UsageError(f"COMMONS_URL must be an address such as https://commons.example, not {url!r}.")
        self._http = httpx.Client(
            base_url=f"{self.url}/api/v1/",
            headers={"Authorization": f"Bearer {token}", "User-Agent": "commons-cli"},
            timeout=httpx.Timeout(60, connect=10),
            transport=transport,
            trust_env=parts.hostname not in LOOPBACK,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, path: str, **parameters: Any) -> Any:
        """The JSON answer of a GET; parameters that are None are left out."""
        return self._request("GET", path, params=_given(parameters)).json()

    def pages(self, path: str, rows_max: int, **parameters: Any) -> Iterator[dict[str, Any]]:
        """The rows of a list, page by page, at most `rows_max`."""
        offset = 0
        while offset < rows_max:
            limit = min(PAGE_ROWS, rows_max - offset)
            page = self.get(path, limit=limit, offset=offset, **parameters)
            yield from page["results"]
            offset += len(page["results"])
            if page["next"] is None or not page["results"]:
                return

    def post(self, path: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> httpx.Response:
        """A POST that may be sent twice without harm: tried again while the portal is away."""
        for wait_seconds in RETRY_AFTER_SECONDS:
            try:
                return self._request("POST", path, json=body, headers=headers)
            except UnreachableError:
                time.sleep(wait_seconds)
        return self._request("POST", path, json=body, headers=headers)

    def post_once(self, path: str, body: dict[str, Any]) -> httpx.Response:
        """A POST that would do its work again if it were sent again: it is not."""
        return self._request("POST", path, json=body)

    def upload(self, path: str, content: bytes, **parameters: Any) -> httpx.Response:
        """A file as it is. It may be sent twice without harm: the same is kept once."""
        return self._request(
            "POST", path, content=content, params=_given(parameters), headers={"Content-Type": "text/csv"}
        )

    def stream(self, path: str, **parameters: Any) -> httpx.Response:
        """The whole answer of a GET, whatever its type."""
        return self._request("GET", path, params=_given(parameters))

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            response = self._http.request(method, path, **options)
        except httpx.InvalidURL as error:
            raise UsageError(f"COMMONS_URL is no address: {error}.") from None
        except httpx.TransportError as error:
            raise UnreachableError(f"{self.url} can't be reached: {error}. Is COMMONS_URL right?") from None
        if response.status_code in AWAY:
            raise UnreachableError(_refusal_text(response))
        if response.status_code >= 400:
            raise RefusedError(_refusal_text(response), _problem(response))
        if response.is_redirect:
            raise UnreachableError(
                f"{self.url} sends elsewhere ({response.headers.get('location')}): set COMMONS_URL to that."
            )
        return response


def client_from_environment() -> Client:
    """The client of COMMONS_URL and COMMONS_TOKEN."""
    token = os.environ.get("COMMONS_TOKEN", "").strip()
    if not token:
        raise UsageError("COMMONS_TOKEN is not set: put your API token there (your account page makes one).")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError("COMMONS_TOKEN is no token: it has blanks or letters that no token has.")
    return Client(os.environ.get("COMMONS_URL", "").strip() or URL_DEFAULT, token)


def _given(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}


def _problem(response: httpx.Response) -> dict[str, Any]:
    try:
        body = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _refusal_text(response: httpx.Response) -> str:
    """A line a complaint, each with its field."""
    errors = _problem(response).get("errors")
    if not isinstance(errors, list) or not errors:
        return f"The portal answered {response.status_code} {response.reason_phrase}."
    return "\n".join(
        f"{error['attr']}: {error['detail']}" if error.get("attr") else str(error["detail"]) for error in errors
    )
