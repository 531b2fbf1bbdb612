# The operator's image: make docker-build IMG=NAME:TAG. Without docker, make image makes an image
# of the same binary. The compiler runs on the machine's own platform, and builds for the
# platform of the image. .github/dependabot.yml keeps the digests current.
FROM --platform=$BUILDPLATFORM golang:1.26.5@sha256:3aff6657219a4d9c14e27fb1d8976c49c29fddb70ba835014f477e1c70636647 AS build
WORKDIR /src

# Modules change less often than code.
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download

COPY main.go ./
COPY artifacts/crd/ artifacts/crd/
COPY pkg/ pkg/

ARG TARGETOS
ARG TARGETARCH
ARG VERSION=dev
ARG COMMIT=unknown
ARG DATE=unknown
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    APP=github.com/glassback/glassback/pkg/version && \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -buildvcs=false \
    -ldflags "-s -w -X $APP.version=$VERSION -X $APP.commit=$COMMIT -X $APP.date=$DATE" -o /glassback .

# No shell, and no user who could become root: certificates, time zones and the binary.
FROM gcr.io/distroless/static-debian13:nonroot@sha256:e2e927ec666bae08560abb3c55d0659eceabb657f56b6782ab500a9fc7f555e3
ARG VERSION=dev
ARG COMMIT=unknown
LABEL org.opencontainers.image.title="Glassback" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$COMMIT"
COPY --from=build /glassback /glassback
USER 65532:65532
ENTRYPOINT ["/glassback"]
