#!/bin/sh
# The examples as a user meets them: exit codes, messages, files, Ctrl-C. Run from the top of the project; BUILD says where they are.
bin=$(cd "${BUILD:-build}" && pwd) || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

# the tests that the note on attention names are there
for name in $(grep -o '`[^`]*`' docs/attention.md | grep -x '`\(test_[a-z_]*\.c: \)\{0,1\}[a-z_]*`' | tr -d '`' | sed 's/.*: //'); do
    case $name in ct_*) continue ;; esac
    grep -q "^START_TEST($name)" tests/test_*.c || { failed=1; echo "WRONG: docs/attention.md names $name, which is no test"; }
done

cd "$work" || exit 1

wrong() { failed=1; echo "WRONG: $*"; sed 's/^/    out: /' out; sed 's/^/    err: /' err; }

# expect CODE PATTERN PROGRAM...: the exit code; the pattern is in what it says, on stderr where the code is not 0
expect() {
    code=$1 pattern=$2; shift 2
    timeout 300 "$@" > out 2> err < /dev/null
    got=$?
    [ $got = "$code" ] || { wrong "$* ended with $got, not $code"; return; }
    if [ "$code" = 0 ]; then [ -s err ] && wrong "$* is noisy"; grep -q -e "$pattern" out || wrong "$* does not say '$pattern'"
    else grep -q -e "$pattern" err || wrong "$* does not say '$pattern'"; fi
}

written() { sed '$d' out > "$1"; } # all but the last line, which has the speed

is_svg() { head -c 5 "$1" | grep -q '<svg' && tail -n 1 "$1" | grep -q '</svg>' && ! grep -q 'nan\|inf' "$1" || wrong "$1 is no picture"; }

seq2seq=$bin/seq2seq char_lm=$bin/char_lm
: > empty
printf 'short' > short
yes 'the quick brown fox jumps over the lazy dog' | head -n 200 > text
i=0; while [ $i -lt 256 ]; do printf "\\$(printf %o $i)"; i=$((i + 1)); done > once
cat once once once once once once > bytes
small="--layers 1 --heads 2 --width 16 --context 16 --batch 4 --length 40"

# the forty lines: the future and the hidden key are exact zeros, in weights and gradient
expect 0 'loss' "$bin/mha"
[ "$(grep -c '\[1.0000, 0.0000, 0.0000, 0.0000, 0.0000\]' out)" = 3 ] || wrong "mha: causal mask or key mask"
[ "$(grep -c '\[ *0.0000, *0.0000, *0.0000, *0.0000, *0.0000, *0.0000, *0.0000, *0.0000\]' out)" = 5 ] || wrong "mha: gradients of what is not seen"

# an op of one's own: the checker passes the right backward and not the wrong one, and values are torch's
expect 0 'the backward of swish is right$' "$bin/custom_op"
grep -q '^the backward of wrong_swish is wrong: input 0' out || wrong "custom_op: the wrong backward passes"

# the graph as text, and a drawing that Graphviz takes where it is
expect 0 '^%1 = linear((2, 5, 8) f32, x1, x2) (2, 5, 24) f32$' "$bin/graph" graph.dot
grep -q '^x1 = parameter "attn.in_proj_weight" (24, 8) f32$' out || wrong "graph: a parameter without its name"
grep -q 'n1 \[label="linear\\n(2, 5, 24) f32"\];' graph.dot && tail -n 1 graph.dot | grep -qx '}' || wrong "graph.dot is no graph"
if command -v dot > /dev/null; then dot -Tsvg graph.dot > graph.svg 2> err && [ ! -s err ] && grep -q '<svg' graph.svg || wrong "dot does not take graph.dot"; fi
expect 2 'there/graph.dot: No such file' "$bin/graph" there/graph.dot

# flags
for program in "$seq2seq" "$char_lm"; do
    expect 0 'usage: ' "$program" --help
    expect 0 '[-][-]steps N' "$program" -h
    expect 2 'unknown flag --stepz' "$program" --stepz 3
    expect 2 'unknown flag -x' "$program" -x
    expect 2 'unknown flag -- ' "$program" --
    expect 2 'needs a value' "$program" --steps
    expect 2 'whole number' "$program" --steps many
    expect 2 'whole number' "$program" --steps 3.5
    expect 2 'must lie between' "$program" --steps 0
    expect 2 'must lie between' "$program" --steps 99999999999999999999
done
expect 2 'cannot make the folder' "$seq2seq" --out /dev/null/there
expect 2 'cannot make the folder' "$char_lm" --out /dev/null/there text
expect 2 'reverse or sort' "$seq2seq" --task shuffle
expect 2 'flags only' "$seq2seq" text
expect 2 'number' "$char_lm" --lr fast text
expect 2 'must lie between' "$char_lm" --dropout 1 text
expect 2 'must lie between' "$char_lm" --lr nan text
expect 2 'takes no value' "$char_lm" --bias=1 text
expect 2 'cannot write' "$char_lm" --save there/model text

# files that are not what they should be
expect 2 'no text' "$char_lm"
expect 2 'missing: No such file' "$char_lm" text missing
expect 2 'empty is empty' "$char_lm" text empty
expect 2 'cannot read .: ' "$char_lm" .
expect 2 'too few' "$char_lm" short
[ "$(id -u)" = 0 ] || { cp text secret; chmod 0 secret; expect 2 'secret: Permission denied' "$char_lm" secret; }
expect 2 'num_heads\|heads' "$char_lm" --width 10 --heads 3 text
expect 2 'missing' "$char_lm" --sample missing
expect 2 'text' "$char_lm" --sample text
expect 2 'trains nothing' "$char_lm" --sample text text
expect 2 '[-][-]prompt' "$char_lm" $small --prompt Z text

# a short run of each: its lines, its files; the same bits for any number of threads
expect 0 'exactly right' "$seq2seq" --steps 2 --task sort --out new
grep -q '^step 1/2  loss .* steps/s ' out || wrong "seq2seq has no plain lines"
grep -q "$(printf '\033')" out && wrong "seq2seq colours a file"
is_svg new/seq2seq_loss.svg; is_svg new/seq2seq_attention.svg
expect 2 'new/seq2seq.safetensors' "$char_lm" --sample new/seq2seq.safetensors
expect 0 'Loss over' "$char_lm" $small --steps 60 --lr 0.01 --warmup 5 --eval-every 20 --threads 1 text
is_svg char_lm_loss.svg
awk '/^Loss over/ {exit !($NF < 3)}' out || wrong "char_lm learns nothing"
expect 0 'Saved' "$char_lm" $small --steps 60 --lr 0.01 --warmup 5 --eval-every 20 --threads 3 --save three text
cmp three char_lm.safetensors || wrong "three threads give another model than one"
expect 0 'Saved' "$char_lm" $small --steps 2 --bias --dropout 0.1 --top-k 3 --top-p 0.9 --save biased text

# writing goes on from a file, as often as one likes; every byte survives
expect 0 'the' "$char_lm" --sample three --prompt 'the ' --length 30 --temperature 0
grep -q '^30 tokens, [0-9]* tokens/s with a cache$' out || wrong "char_lm does not say how fast it writes"
written before; [ "$(wc -c < before)" = 35 ] || wrong "the length of what is written"
expect 0 'the' "$char_lm" --sample three --prompt 'the ' --length 30 --temperature 0 --seed 2
written after; cmp -s before after || wrong "greedy writing depends on the seed"

# with a cache the text is the same, also where a window of 16 was full; a prompt may be longer than that
for length in 12 100; do
    expect 0 'with a cache' "$char_lm" --sample three --prompt 'the ' --length $length --temperature 1; written before
    expect 0 'without a cache' "$char_lm" --sample three --prompt 'the ' --length $length --temperature 1 --no-cache; written after
    cmp -s before after || wrong "a cache changes the $length characters that are written"
done
expect 0 'dog' "$char_lm" --sample three --prompt 'the quick brown fox jumps over the lazy dog' --length 9
expect 0 'Saved' "$char_lm" $small --steps 2 --save every bytes
expect 0 '' "$char_lm" --sample every --length 9 --prompt "$(printf '\377\001')"
tr '\n' '\0' < text > zeros
expect 0 'Saved' "$char_lm" $small --steps 2 --save zero zeros
expect 2 'not in the text' "$char_lm" --sample three --prompt Z
head -c 2000 three > cut
expect 2 'cut' "$char_lm" --sample cut

# a disk that is full: a message, exit code 1, and the old model stays
cp three kept
(trap '' XFSZ; ulimit -f 4; "$char_lm" $small --steps 2 --save three text > out 2> err)
[ $? = 1 ] && [ -s err ] || wrong "a full disk"
cmp -s three kept || wrong "a failed save harms the old file"

# as many parameters as such models have, worked out by hand
expect 0 'multi-query    1 key heads' "$bin/models"
for line in '29184 parameters; logits (2, 8, 100)' '29600 parameters; logits (2, 8, 100)' '62720 parameters; logits (2, 5, 100)'; do
    grep -q "^$line$" out || wrong "models: not $line"
done
expect 0 'characters: map.svg' "$bin/attention_map" --out map.svg
is_svg map.svg
expect 2 'missing' "$bin/attention_map" missing --out map.svg

# Ctrl-C, and SIGTERM: a clean end that saves
interrupt() {
    signal=$1; shift
    rm -rf stopped out; "$@" > out 2> err &
    tries=0; until grep -qs '^step' out || [ $tries = 300 ]; do sleep 0.1; tries=$((tries + 1)); done
    kill -s "$signal" $!
    wait $!
    got=$?
    [ $got = 0 ] || wrong "$* ended with $got on $signal"
    grep -q '^Interrupted: saved the model as stopped/' out || wrong "$* does not say what it saved"
    is_svg stopped/*_loss.svg; [ -s stopped/*.safetensors ] || wrong "$* saved no model"
}
interrupt INT "$seq2seq" --steps 1000000 --out stopped
interrupt TERM "$char_lm" $small --steps 1000000 --out stopped text
expect 0 '' "$char_lm" --sample stopped/char_lm.safetensors --length 5

# on a terminal: a bar that is drawn over itself, and no colour where none is wanted
if command -v script > /dev/null && script -qec true /dev/null > /dev/null 2>&1; then
    TERM=xterm script -qec "$char_lm $small --steps 3 text" /dev/null > out 2> err < /dev/null
    grep -q "$(printf '\033\\[36m')" out || wrong "no bar on a terminal"
    NO_COLOR=1 TERM=xterm script -qec "$char_lm $small --steps 3 text" /dev/null > out 2> err < /dev/null
    grep -q "$(printf '\033')\\[[0-9;]*m" out && wrong "colours in spite of NO_COLOR"
fi
[ $failed = 0 ] && echo "the examples keep their word"
exit $failed
