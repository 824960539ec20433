# The image of boxes with the command line agents in it, for engines that cannot see folders of this machine.
#   docker build -t clawloop-sandbox-clis:1 -f clis.Dockerfile "$(scripts/install_clis.sh)"
ARG BASE=clawloop-sandbox:1
FROM ${BASE}
COPY . /opt/clis
