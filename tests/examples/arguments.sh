# shellcheck shell=sh disable=SC2154
# Every program of programs/ and examples/ with wrong arguments and with --help, as tests/examples/check runs it: with its functions.
# refuses_arguments PROGRAM...: ends with 2, and the form of the command is on stderr
refuses_arguments() {
    expect 2 "^usage: $(basename "$1")" "$@"
    [ -s out ] && wrong "$* prints on stdout"
}
for file in "$top"/programs/*.c "$top"/examples/*.c; do
    grep -q '^int main(' "$file" && [ "$(basename "$file")" != no_arguments.c ] || continue
    name=$(basename "$file" .c) program=$bin/$(basename "$file" .c)
    expect 0 "^Usage: $name" "$program" --help
    cp out help
    expect 0 "^$name (cotangent) [0-9]*\.[0-9]*\.[0-9]*\$" "$program" --version
    refuses_arguments "$program" --unknown
    refuses_arguments "$program" --unknown=3
    refuses_arguments "$program" -1
    [ -z "$RUN" ] || continue # an emulator is too slow for all numbers
    for flag in $(sed -n 's/^  \(--[a-z0-9-]*\) \(N\|X\|P\|PART\)  .*/\1/p' help); do
        for number in nan -1 1e99 '' 3x; do refuses_arguments "$program" "$flag" "$number"; done
    done
done
for program in "$bin/digits" "$bin/packed"; do
    for number in nan 0 1e99 '' 3x '3 4'; do refuses_arguments "$program" "$number"; done
    refuses_arguments "$program" 3 4
done
refuses_arguments "$bin/lion" one two
for file in $(grep -l '^int main(void)' "$top"/examples/*.c); do refuses_arguments "$bin/$(basename "$file" .c)" one; done
