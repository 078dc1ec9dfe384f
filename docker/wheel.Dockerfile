# Builds a wheel for systems with glibc 2.28 or later (RHEL 8, Debian 10, Ubuntu 18.10):
#
#     docker build -f docker/wheel.Dockerfile --target wheel --output dist .
#
# The image contains a compiler for libraries that run on old systems. To get the same
# wheel again, replace the tag by the digest of the image that you used.
#
# hadolint has checked this file, but we have not built the image.
# hadolint ignore=DL3007
FROM quay.io/pypa/manylinux_2_28_x86_64:latest AS build
WORKDIR /src
COPY . .
ENV PATH=/opt/python/cp312-cp312/bin:$PATH SOURCE_DATE_EPOCH=315532800
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /built . \
    && auditwheel repair --plat manylinux_2_28_x86_64 \
       --exclude libtensorflow_framework.so.2 --wheel-dir /wheel /built/ios_tf-*.whl

FROM scratch AS wheel
COPY --from=build /wheel /
