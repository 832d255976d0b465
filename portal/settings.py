"""Django's settings: everything that varies comes from the environment through `portal.env`."""

from pathlib import Path

from csp.constants import NONE, SELF

from portal import env

BASE_DIR = Path(__file__).resolve().parent.parent
DEBUG = env.flag("DEBUG")
SECRET_KEY = env.secret("SECRET_KEY")
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS")
CSRF_TRUSTED_ORIGINS = env.words("CSRF_TRUSTED_ORIGINS")
SITE_NAME = env.text("SITE_NAME")
SITE_ZONE = env.text("SITE_ZONE")

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "django.contrib.humanize",
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_filters",
    "django_htmx",
    "csp",
    "portal.common",
    "portal.projects",
    "portal.clusters",
    "portal.budgets",
    "portal.workloads",
    "portal.usage",
    "portal.scheduling",
    "portal.simulations",
    "portal.proposals",
    "portal.dashboard",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "portal.common.lengths.LengthRequiredMiddleware",
    "portal.dashboard.middleware.DatabaseAwayMiddleware",
    "portal.dashboard.middleware.StartingMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "portal.dashboard.middleware.ErrorPageMiddleware",
]
ROOT_URLCONF = "portal.urls"
WSGI_APPLICATION = "portal.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "portal.dashboard.frame.frame_context",
                "portal.common.availability.broker_context",
            ],
        },
    },
]

DATABASES = {"default": {**env.database(), "CONN_MAX_AGE": 600, "CONN_HEALTH_CHECKS": True}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CACHES = {"default": {"BACKEND": "django.core.cache.backends.db.DatabaseCache", "LOCATION": "cache"}}

AUTH_USER_MODEL = "projects.User"
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_ADAPTER = "portal.projects.accounts.ClosedSignup"
ACCOUNT_FORMS = {"login": "portal.projects.sign_in.SignInForm"}
ACCOUNT_LOGOUT_ON_GET = False
ACCOUNT_RATE_LIMITS = {"login_failed": "10/m/ip,5/5m/key"}

LANGUAGE_CODE = "en-gb"
USE_I18N = False
USE_TZ = True
TIME_ZONE = SITE_ZONE

STATIC_URL = "/static/"
# Without hashed names the files are served from where they lie, and nothing is collected.
STATIC_ROOT = env.text("STATIC_ROOT") if env.flag("MANIFEST_STATIC") else None
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = not env.flag("MANIFEST_STATIC")
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"
        if env.flag("MANIFEST_STATIC")
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}

# plotly.js adds two fixed style elements: their hashes, as computed by Chromium; nothing else is inline.
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [
            SELF,
            "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='",
            "'sha256-ji27qzEtxXZW+7dun6UwjHXJ18e6WAin1VvNtkzIE/o='",
        ],
        "img-src": [SELF, "data:", "blob:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],
    }
}
HTTPS = env.flag("HTTPS")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
# Probes inside the network ask without TLS.
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
CSRF_FAILURE_VIEW = "portal.dashboard.views_errors.csrf_failure"
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 2_621_440

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "portal.projects.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["portal.common.parsers.StrictJSONParser"],
    "DEFAULT_PAGINATION_CLASS": "portal.common.pagination.LimitOffset",
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_THROTTLE_CLASSES": ["portal.common.throttling.PersonThrottle"],
    "DEFAULT_THROTTLE_RATES": {"user": "12000/min"},
    "EXCEPTION_HANDLER": "portal.common.problems.problem_handler",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "GPU Commons",
    "DESCRIPTION": "Who gets the GPU time, and why. Times are ISO 8601 in UTC, GPU-time is whole GPU-seconds.",
    "VERSION": "1",
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SCHEMA_PATH_PREFIX": "/api/v1/",
    "SERVE_INCLUDE_SCHEMA": False,
    "ENUM_NAME_OVERRIDES": {
        "AttemptState": "portal.workloads.models.AttemptState",
        "BudgetChangeState": "portal.budgets.history.ChangeState",
        "ProposalState": "portal.proposals.models.ProposalState",
        "RequestState": "portal.proposals.models.RequestState",
        "RunState": "portal.simulations.models.RunState",
        "HostState": "portal.clusters.models.HostState",
        "Standing": "portal.workloads.models.Standing",
        "WorkloadState": "portal.workloads.models.WorkloadState",
    },
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "portal.common.schema.problems_add",
    ],
}

vars().update(env.email())
DEFAULT_FROM_EMAIL = SERVER_EMAIL = env.text("EMAIL_FROM")
EMAIL_TIMEOUT = 20
SITE_URL = env.text("SITE_URL").rstrip("/")
DIGEST_HOUR = env.number("DIGEST_HOUR")
OWN_PROPOSALS = env.choice("OWN_PROPOSALS", ("never", "alone", "always"))

BROKER_URL = env.secret("BROKER_URL")
PASS_INTERVAL_SECONDS = env.number("PASS_INTERVAL_SECONDS")
SIMULATION_QUEUED_MOST = env.number("SIMULATION_QUEUED_MOST")
SIMULATION_HOST_DAYS = env.number("SIMULATION_HOST_DAYS")
SIMULATION_TRACE_BYTES = env.number("SIMULATION_TRACE_MB") * 1024**2
SIMULATION_TRACE_ROWS = env.number("SIMULATION_TRACE_ROWS")
SIMULATION_STORED_BYTES = env.number("SIMULATION_STORED_MB") * 1024**2
SIMULATION_SECONDS = env.number("SIMULATION_MINUTES") * 60
SIMULATION_MEMORY_BYTES = env.number("SIMULATION_MEMORY_MB") * 1024**2
PORTAL_SIGNING_KEY_FILE = env.text("PORTAL_SIGNING_KEY_FILE")
DATA_DIR = Path(env.text("DATA_DIR"))

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": "INFO"},
}
