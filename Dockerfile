# One broker. Data in /var/lib/barnabas, Kafka's protocol and HTTP on 9092:
#
#   docker build -t barnabas .
#   docker run --rm -p 127.0.0.1:9092:9092 -v barnabas:/var/lib/barnabas barnabas
#
# Settings: BARNABAS_... or KAFKA_... variables (KAFKA_NUM_PARTITIONS=3), or `broker --set key=value`.

FROM python:3.12-slim AS build
# strip: uvloop comes with 14 MB of symbols
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends binutils >/dev/null
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY pyspark_barnabas pyspark_barnabas
COPY barnabas barnabas
RUN python -m venv --without-pip /opt/barnabas \
    && pip --python /opt/barnabas/bin/python install --no-cache-dir '.[mqtt]' \
    # sources of compiled modules; nothing reads them at run time
    && find /opt/barnabas -type f \( -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi' -o -name '*.c' -o -name '*.h' \) -delete \
    && find /opt/barnabas -name '*.so' -exec strip --strip-unneeded {} +

FROM python:3.12-slim
# The data directory is made with its owner, so that a new volume gets it, too.
RUN groupadd --gid 10001 barnabas \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/barnabas --shell /usr/sbin/nologin barnabas \
    && install -d -o barnabas -g barnabas -m 0750 /var/lib/barnabas
COPY --from=build /opt/barnabas /opt/barnabas
COPY configs/container.properties /etc/barnabas/broker.properties
# The C library keeps large buffers that were freed in its heap, between small ones that live: ten consumers of 50 MB each
# take 250 MB so. From a MiB on they go back at once.
ENV PATH=/opt/barnabas/bin:$PATH PYTHONUNBUFFERED=1 MALLOC_MMAP_THRESHOLD_=1048576
# The base image has no bytecode of the standard library, and the user below may write none: each start and each health
# check would compile it, 0.4 s. What they import is compiled here (3 MB).
RUN python -c "import barnabas; barnabas.Broker().close()" \
    && barnabas broker --help >/dev/null \
    && { barnabas health >/dev/null 2>&1 || true; }
USER 10001:10001
WORKDIR /var/lib/barnabas
VOLUME /var/lib/barnabas
EXPOSE 9092
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s --retries=3 CMD ["barnabas", "health"]
ENTRYPOINT ["barnabas"]
CMD ["broker", "--config", "/etc/barnabas/broker.properties"]
