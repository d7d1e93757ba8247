# The backend for Label Studio: docs/label-studio.md. Texts are embedded without torch.
#   docker build -t everylabel .
#   docker run -p 9090:9090 -v everylabel:/data -e LABEL_STUDIO_URL=http://host.docker.internal:8080 \
#     -e LABEL_STUDIO_TOKEN=... everylabel --project 7 --address http://localhost:9090
FROM python:3.12-slim

COPY pyproject.toml README.md LICENSE constraints.txt /source/
COPY src /source/src
ARG EXTRAS=onnx,postgresql
RUN pip install --no-cache-dir --constraint /source/constraints.txt "/source[$EXTRAS]" && rm -r /source

RUN useradd --create-home everylabel && mkdir /data && chown everylabel /data
USER everylabel
WORKDIR /data
VOLUME /data
ENV EVERYLABEL_CACHE=/data/cache
EXPOSE 9090
ENTRYPOINT ["everylabel", "label-studio", "--host", "0.0.0.0", "--folder", "/data"]
