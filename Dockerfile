# The app, the command `assay` and Dagster in one image, for CPUs:
#   docker build --tag rag-assay .
#   docker run --rm --volume assay:/data rag-assay run demo
ARG PYTHON=3.11.14-slim-bookworm

FROM python:${PYTHON} AS build
ENV UV_LINK_MODE=copy UV_COMPILE_BYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1 VIRTUAL_ENV=/opt/assay
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
WORKDIR /build
# Packages change seldom: their layers stay until pyproject.toml or a lock is edited.
COPY pyproject.toml requirements.lock torch.lock ./
RUN sed -n '/^uv==/,/[^\\]$/p' requirements.lock > uv.lock \
 && pip install --no-cache-dir --no-deps --require-hashes -r uv.lock \
 && python -m venv --without-pip "$VIRTUAL_ENV"
RUN --mount=type=cache,target=/root/.cache/uv \
    uv pip install --no-deps --index-url https://download.pytorch.org/whl/cpu -r torch.lock
# Versions and digests are those of the lock; what only development needs is left out.
# hadolint ignore=DL3059
RUN --mount=type=cache,target=/root/.cache/uv \
    uv pip install --constraints requirements.lock -r pyproject.toml \
       --extra app --extra local --extra formats --extra scale
COPY . .
RUN --mount=type=cache,target=/root/.cache/uv \
    uv pip install --no-deps --build-constraints requirements.lock .

FROM python:${PYTHON}
RUN apt-get update \
 && apt-get install --yes --no-install-recommends libgomp1=12.2.* \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --gid 10001 assay \
 && useradd --uid 10001 --gid assay --create-home assay \
 && install --directory --owner assay --group assay /data /studies
COPY --from=build /opt/assay /opt/assay
ENV PATH=/opt/assay/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    ASSAY_HOME=/data \
    DAGSTER_HOME=/data/dagster \
    ASSAY_STUDIES=/studies
USER 10001:10001
WORKDIR /studies
VOLUME /data
ENTRYPOINT ["assay"]
CMD ["--help"]
