# The keeper of a box: root, with no capability but that to signal others. It says how the box is held; then, for each
# line on its input, it kills all other processes and says what it sees. It ends, and the box with it, when the input
# ends or is silent for $1 seconds. Its parent is the engine's init, the first process, which reaps what others leave.
shopt -s nullglob dotglob
groups=/sys/fs/cgroup

first() {  # the first line of the first of these files that is there, without blanks
    local file line=
    for file in "$@"; do
        if [ -r "$file" ]; then
            read -r line <"$file"
            break
        fi
    done
    printf -v said '%s' "${line// /\/}"
}

# The word after $1, at the start of a line of the file $2, which is read in one go: bash's `while read` seeks back after
# each line, and the kernel then writes the file anew, so that a line is lost where another one has become shorter.
word() {
    local IFS= lines
    mapfile lines <"$2"
    [[ $'\n'${lines[*]} =~ $'\n'"$1"[[:blank:]]+([^[:space:]]+) ]] && said=${BASH_REMATCH[1]}
}

root() {  # how the root is mounted: ro or rw
    local device place kind options rest
    while read -r device place kind options rest; do
        if [ "$place" = / ]; then said=${options%%,*}; fi
    done </proc/self/mounts
}

oom_kills() {
    local file
    said=0
    for file in "$groups"/memory.events "$groups"/memory/memory.oom_control; do
        [ -r "$file" ] && word oom_kill "$file"
    done
}

hello() {
    first "$groups"/memory.max "$groups"/memory/memory.limit_in_bytes && printf 'memory=%s ' "$said"
    first "$groups"/pids.max "$groups"/pids/pids.max && printf 'processes=%s ' "$said"
    first "$groups"/cpu.max "$groups"/cpu/cpu.cfs_quota_us "$groups"/cpu,cpuacct/cpu.cfs_quota_us && printf 'quota=%s ' "$said"
    first "$groups"/cpu/cpu.cfs_period_us "$groups"/cpu,cpuacct/cpu.cfs_period_us && printf 'period=%s ' "$said"
    word CapBnd: /proc/self/status && printf 'capabilities=%s ' "$said"
    word NoNewPrivs: /proc/self/status && printf 'no_new_privileges=%s ' "$said"
    word Seccomp: /proc/self/status && printf 'seccomp=%s ' "$said"
    root && printf 'root=%s\n' "$said"
}

report() {
    local tries processes scratch
    for tries in {1..50}; do
        kill -9 -1 2>/dev/null
        processes=(/proc/[0-9]*)
        if [ ${#processes[@]} = 2 ]; then break; fi
    done
    scratch=(/tmp/* /dev/shm/*)
    oom_kills
    printf 'others=%s scratch=%s oom_kills=%s\n' $((${#processes[@]} - 2)) ${#scratch[@]} "$said"
}

hello
while read -r -t "$1" _; do report; done
