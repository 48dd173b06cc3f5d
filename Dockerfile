# syntax=docker/dockerfile:1
# `hashstream serve` in a container.
#
#   docker build -t hashstream .
#   hashstream token tokens --name me --scope admin      # prints the token; the file holds its hash
#   docker run --init -p 8000:8000 --stop-timeout 45 -v hashstream:/data \
#       --mount type=bind,src="$PWD/tokens",dst=/run/secrets/tokens,readonly hashstream
#
# The file of tokens has to be readable by the user 10001. The container may run with --read-only --tmpfs /tmp.

FROM python:3.11-slim-bookworm AS build

# Debian keeps only the newest version of a package, so a pinned one would stop the build some day.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*

ARG EXTRAS=cli,serve,parquet
WORKDIR /build
COPY pyproject.toml setup.py constraints.txt README.md LICENSE ./
COPY src src
RUN python -m venv /opt/hashstream \
    && /opt/hashstream/bin/pip install --no-cache-dir --constraint constraints.txt ".[${EXTRAS}]" \
    && /opt/hashstream/bin/python -c "from hashstream import _native; assert _native.lib"

FROM python:3.11-slim-bookworm

RUN useradd --uid 10001 --user-group --no-create-home --home-dir /data --shell /usr/sbin/nologin hashstream \
    && install --directory --owner=10001 --group=10001 --mode=0700 /data
COPY --from=build /opt/hashstream /opt/hashstream
ENV PATH=/opt/hashstream/bin:$PATH \
    PYTHONUNBUFFERED=1

USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=2m --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/readyz', timeout=4)"]
ENTRYPOINT ["hashstream"]
CMD ["serve", "/data", "--host", "0.0.0.0", "--port", "8000", "--tokens", "/run/secrets/tokens"]
