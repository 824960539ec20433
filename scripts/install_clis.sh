#!/usr/bin/env bash
# The command line agents of conf/harness, at pinned versions, with the node that runs them: scripts/install_clis.sh [FOLDER]
#
# Prints the folder. One that is whole is used again; a new one is made beside it and put in place at the end. The default is
# CLAWLOOP_CLIS, or /var/tmp/clawloop-clis. Its content is for everyone to read, since boxes have users of their own.
set -euo pipefail

node=node@24.21.0
clis=(
    pi:@mariozechner/pi-coding-agent@0.73.1
    codex:@openai/codex@0.171.0
    qwen:@qwen-code/qwen-code@0.24.4
    gemini:@google/gemini-cli@0.61.0
    opencode:opencode-ai@1.18.33
    openclaw:openclaw@2026.9.6
)

say() { echo "scripts/install_clis.sh: $*" >&2; }

folder=$(realpath -m "${1:-${CLAWLOOP_CLIS:-/var/tmp/clawloop-clis}}")
pins="$node ${clis[*]}"
whole() { [ -O "$folder" ] && [ "$(cat "$folder/pins" 2>/dev/null)" = "$pins" ]; }

command -v npm >/dev/null || { say "npm is missing, which installs node and the agents: install it with your system's packages."; exit 1; }
umask 022
mkdir -p "$(dirname "$folder")"
exec 9>"$folder.lock"
flock 9
if ! whole; then
    if [ -e "$folder" ] && [ ! -e "$folder/pins" ]; then
        say "$folder is there, and was not made by this script: name another folder."
        exit 1
    fi
    new=$(mktemp -d "$folder.XXXXXX")
    trap 'rm -rf "$new"' EXIT
    chmod 755 "$new"
    install_one() { # a folder of its own, so that no two agents share a dependency
        mkdir -p "$new/$1"
        npm install --prefix "$new/$1" --no-audit --no-fund --loglevel=error "$2" >"$new/log" 2>&1 9>&- || {
            say "npm did not install $2: $(grep -m 1 'error' "$new/log" || tail -n 1 "$new/log")"
            exit 1
        }
    }
    install_one node "$node"
    mkdir "$new/bin"
    ln -s ../node/node_modules/node/bin/node "$new/bin/node"
    export PATH="$new/bin:$PATH"
    for one in "${clis[@]}"; do
        install_one "${one%%:*}" "${one#*:}"
        ln -s "../${one%%:*}/node_modules/.bin/${one%%:*}" "$new/bin/${one%%:*}"
    done
    chmod +x "$new"/qwen/node_modules/@qwen-code/qwen-code/vendor/ripgrep/*/rg 2>/dev/null || true # comes without the bit
    chmod -R a+rX "$new"
    rm "$new/log"
    echo "$pins" >"$new/pins"
    rm -rf "$folder"
    mv -T "$new" "$folder"
    trap - EXIT
fi
echo "$folder"
