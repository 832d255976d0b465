# One image for every part of the portal: which part a container is, its command says.
FROM python:3.13-slim AS build
COPY requirements/ /requirements/
RUN python -m venv /venv \
 && /venv/bin/pip install --no-cache-dir --require-hashes --no-deps -r /requirements/runtime.txt

# The scheduler compiled for simulations; again only when its text, or how it is compiled, has changed.
FROM build AS compiled
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev \
 && /venv/bin/pip install --no-cache-dir --require-hashes --no-deps -r /requirements/compiler.txt
COPY portal/__init__.py portal/env.py /app/portal/
COPY portal/simulations/__init__.py portal/simulations/compiled.py portal/simulations/compiling.py /app/portal/simulations/
COPY scheduler/ /app/scheduler/
WORKDIR /app
RUN /venv/bin/python -m portal.simulations.compiling

FROM python:3.13-slim
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin commons
COPY --from=build /venv /venv
COPY --from=compiled /app/.compiled/ /app/.compiled/
COPY manage.py pyproject.toml /app/
COPY portal/ /app/portal/
COPY scheduler/ /app/scheduler/
COPY templates/ /app/templates/
COPY static/ /app/static/
WORKDIR /app
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 MANIFEST_STATIC=1 STATIC_ROOT=/app/staticfiles
RUN SECRET_KEY=only-while-the-image-is-built python manage.py collectstatic --no-input \
 && python -m compileall -q portal scheduler .compiled
USER commons
EXPOSE 8000
CMD ["gunicorn", "portal.wsgi", "--bind", "0.0.0.0:8000", "--workers", "2", "--threads", "8", "--no-control-socket"]
