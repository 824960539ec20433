#!/usr/bin/env bash
# The command line agents of conf/harness, at pinned versions, with the node that runs them: scripts/install_clis.sh [FOLDER]
#
# mini-swe-agent is Python and runs with that of the box: it is installed for this machine's, which bubblewrap shows, and
# for that of the Docker image.
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
mini=(mini-swe-agent==2.4.6 litellm==1.110.2)
pythons=$({ PATH=/usr/local/bin:/usr/bin:/bin python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; echo 3.11; } | sort -u)

say() { echo "scripts/install_clis.sh: $*" >&2; }

folder=$(realpath -m "${1:-${CLAWLOOP_CLIS:-/var/tmp/clawloop-clis}}")
pins=$(echo "$node ${clis[*]} ${mini[*]} for Python" $pythons)
whole() { [ -O "$folder" ] && [ "$(cat "$folder/pins" 2>/dev/null)" = "$pins" ]; }

missing() { say "$1 is missing, which installs $2: install it with your system's packages."; exit 1; }
command -v npm >/dev/null || missing npm "node and the agents"
python3 -m pip --version >/dev/null 2>&1 || missing "pip (python3 -m pip)" mini-swe-agent
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
    install_mini() {
        local python
        for python in $pythons; do
            python3 -m pip install --quiet --target "$new/mini/$python" --python-version "$python" --only-binary=:all: \
                "${mini[@]}" >"$new/log" 2>&1 9>&- || {
                say "pip did not install ${mini[*]} for Python $python: $(grep -m 1 ERROR "$new/log" || tail -n 1 "$new/log")"
                exit 1
            }
        done
        cat >"$new/bin/mini" <<'END'
#!/usr/bin/env python3
"""mini-swe-agent with the Python that is here; its packages are not shown to the commands that it runs."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "mini" / "{}.{}".format(*sys.version_info)))
from minisweagent.run.mini import app

app()
END
        chmod +x "$new/bin/mini"
    }
    install_one node "$node"
    mkdir "$new/bin"
    ln -s ../node/node_modules/node/bin/node "$new/bin/node"
    export PATH="$new/bin:$PATH"
    for one in "${clis[@]}"; do
        install_one "${one%%:*}" "${one#*:}"
        ln -s "../${one%%:*}/node_modules/.bin/${one%%:*}" "$new/bin/${one%%:*}"
    done
    install_mini
    chmod +x "$new"/qwen/node_modules/@qwen-code/qwen-code/vendor/ripgrep/*/rg 2>/dev/null || true # comes without the bit
    chmod -R a+rX "$new"
    rm "$new/log"
    echo "$pins" >"$new/pins"
    rm -rf "$folder"
    mv -T "$new" "$folder"
    trap - EXIT
fi
echo "$folder"
