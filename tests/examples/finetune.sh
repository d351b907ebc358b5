# shellcheck shell=sh disable=SC2154,SC2086
# finetune, as tests/examples/check runs it: in a folder of its own, with its functions.
finetune=$bin/finetune
mkdir tuned && cd tuned || exit 1
yes 'the quick brown fox jumps over the lazy dog' | head -n 60 > prose
"$bin/tokenize" --train 298 --out plain.json prose > out 2> err || wrong "tokenize --train fails"
python3 - << 'END'
import json
tokenizer = json.load(open("plain.json"))
first = len(tokenizer["model"]["vocab"]) # fewer than 298, as the text has few words
for id, text in [(first, "<|im_start|>"), (first + 1, "<|im_end|>")]:
    tokenizer["added_tokens"].append(dict(tokenizer["added_tokens"][0], id=id, content=text))
json.dump(tokenizer, open("tok.json", "w"))
END
python3 "$make_model" lm tok.json
python3 "$make_model" unknowing plain.json
for i in 1 2 3 4 5 6; do
    echo "{\"messages\": [{\"role\": \"user\", \"content\": \"the $i\"}, {\"role\": \"assistant\", \"content\": \"fox $i$i\"}]}"
done > chats.jsonl
chats="lm --data chats.jsonl --template chatml --length 128 --threads 1"

# adapters: what is said, the files, and a loss that falls on text that repeats; what the user says is not learned
expect 0 'of which the loss counts' "$finetune" lm --data prose --out adapter --length 64 --steps 30 --lr 0.01 --hold-out 0.1 --eval-every 10 --sample 'the quick' --log log.jsonl
for said in '^prose: 1 document, ' '^held out: 1 document, ' '^A llama of 0.05418 million parameters, of which 0.01638 million are trained, the adapters of 14 matrices$' \
    '^30 steps of 4 rows; memory: about [0-9]* MB (' '^Validation before the first step: 5\.' '^  step 30: the quick >> ' 'validation [0-9.]* (step 10)' \
    '^Saved the adapters as adapter$' '^Memory at most [0-9]* MB; about [0-9]* were expected$'; do
    grep -q "$said" out || wrong "finetune does not say '$said'"
done
[ "$(ls adapter | tr '\n' ' ')" = 'adapter_config.json adapter_model.safetensors ' ] || wrong "finetune: other files"
[ "$(wc -l < log.jsonl)" = 30 ] && awk -F'"loss":' '{split($2, a, ",")} NR == 1 {first = a[1]} END {exit !(a[1] < first - 1)}' log.jsonl || wrong "finetune: the loss does not fall"
expect 0 'Saved the model as full' "$finetune" $chats --full --out full --steps 200 --lr 0.01 --sample 'the 3'
grep -q '^  step 200: the 3 >> fox 33' out || wrong "finetune: no answer as those that were learned"
awk '/^step 200/ {exit !($4 < 0.05)}' out || wrong "finetune: the loss of six short answers"
expect 0 'fox 55' "$finetune" full --data chats.jsonl --template chatml --out again --steps 1 --lr 1e-9 --sample 'the 5' # the folder opens as a model
"$bin/generate" full --chat --template chatml --prompt 'the 2' --tokens 12 > out 2> err || wrong "generate: a folder of finetune"
grep -q '^fox 22' out || wrong "generate: the folder of finetune answers otherwise"
expect 2 'has no chat template: name one, as chatml, .* (--template)' "$bin/generate" lm --chat --prompt 'the 2'
printf '{"max_new_tokens": 3}' > full/generation_config.json
"$bin/generate" full --prompt 'the 2' --no-eos --tokens 0 > out 2> err && grep -q '^3 tokens behind' err || wrong "generate --tokens 0: another limit than the folder's"
# a template whose tokens the tokenizer has not: --full adds them, trains their rows and saves the tokenizer
expect 2 'the tokenizer has no token <|im_end|>, which ends a turn of this template: --full' "$finetune" unknowing --data chats.jsonl --template chatml --out never
expect 2 'the tokenizer has no token <|im_end|>' "$finetune" unknowing --data prose --valid chats.jsonl --template chatml --merge --out never
[ -e never ] && wrong "finetune writes in spite of a missing token"
expect 0 'The tokenizer gets the token <|im_end|>, with id [0-9]*$' "$finetune" unknowing --data chats.jsonl --template chatml --full --out known --steps 200 --lr 0.01 --length 64
"$bin/generate" known --chat --template chatml --prompt 'the 4' --tokens 40 > out 2> err || wrong "generate: a folder with new tokens"
[ "$(cat out)" = 'fox 44' ] || wrong "generate does not end with the turn"
expect 0 'Saved the adapters' "$finetune" known --data chats.jsonl --template chatml --steps 1 --out adapters_of_known
expect 0 'Saved the model as merged' "$finetune" $chats --merge --out merged --steps 2
cmp -s merged/tokenizer.json lm/tokenizer.json || wrong "finetune: no tokenizer"
expect 0 'the adapters of 14 matrices' "$finetune" $chats --targets all-linear --out all_linear --steps 1
printf '\357\273\277' | cat - chats.jsonl > marked.jsonl; printf '\357\273\277' | cat - prose > marked # a byte order mark
expect 0 'chats.jsonl: 6 documents, 168 tokens' "$finetune" $chats --out unmarked --steps 1
expect 0 'marked.jsonl: 6 documents, 168 tokens' "$finetune" $chats --data marked.jsonl --out marked_out --steps 1
expect 0 'the adapters of 4 matrices' "$finetune" $chats --targets ' q_proj, v_proj' --rank 3 --out qv --steps 2 --bf16 --recompute
cp -r lm odd && sed -i 's/{/{"no_such_key": 7,/' odd/config.json
expect 2 '"no_such_key" is 7' "$finetune" odd --data prose --out never --steps 1
expect 0 'Saved the adapters' "$finetune" odd --data prose --out ignored --steps 1 --length 64 --ignore-unknown
expect 2 '"no_such_key" is 7' "$bin/generate" odd --prompt 'the'
"$bin/generate" odd --prompt 'the' --tokens 1 --ignore-unknown > out 2> err || wrong "generate --ignore-unknown"
head -n 1 chats.jsonl > one.jsonl
expect 0 '^2 steps of 1 row; ' "$finetune" lm --data one.jsonl --template chatml --out one --steps 2 # and not one row four times
mkdir left.unfinished && : > left.unfinished/old # as a run leaves it that was killed while it saved
expect 0 '^step 2/2 .* validation [0-9.]* ' "$finetune" $chats --valid chats.jsonl --out left --steps 2
[ "$(grep -c '^chats.jsonl: 6 documents' out)" = 2 ] || wrong "finetune: --valid"
[ "$(ls left | tr '\n' ' ')" = 'adapter_config.json adapter_model.safetensors tokenizer.json tokenizer_config.json ' ] || wrong "finetune: files of a run that was killed"
python3 - << 'END' || wrong "finetune: names of adapters"
import json, struct
data = open("qv/adapter_model.safetensors", "rb").read()
header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
names = sorted(k for k in header if k != "__metadata__")
assert len(names) == 8 and all("q_proj" in n or "v_proj" in n for n in names), names
assert header["base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"]["shape"] == [3, 32], header
END

# micro-batches with unequal counts of targets, padded rows and any number of threads: the losses of one batch, but for rounding
losses() { sed 's/[^:]*:\([0-9]*\),"loss":\([^,]*\),.*"grad_norm":\([^,]*\),.*/\1 \2 \3/' "$1"; }
near() {
    losses "$1" > a
    losses "$2" | paste -d ' ' a - |
        awk '{d = $2 / $5 - 1; g = $3 / $6 - 1; if ($1 != $4 || d * d > 1e-10 || g * g > 1e-8) bad = 1} END {exit NR != 8 || bad}' ||
        wrong "finetune: $2 has other losses or gradients than $1"
}
printf '{"text": "fox"}\n' | cat chats.jsonl - > mixed.jsonl
mixed="lm --data mixed.jsonl --template chatml --length 128 --steps 8 --padded"
expect 0 'Saved' "$finetune" $mixed --batch 4 --out p1 --log p1.jsonl
expect 0 'Saved' "$finetune" $mixed --batch 2 --accumulate 2 --threads 2 --out p2 --log p2.jsonl
expect 0 'Saved' "$finetune" $mixed --batch 1 --accumulate 4 --threads 1 --out p3 --log p3.jsonl
near p1.jsonl p2.jsonl; near p1.jsonl p3.jsonl

# a run that is stopped by Ctrl-C or SIGKILL goes on to the same bits
steady="lm --data chats.jsonl --template chatml --length 128 --steps 120 --dropout 0.1 --accumulate 2 --batch 2 --hold-out 0.2 --eval-every 30 --every 20 --keep 2"
same_tuning() {
    cmp -s whole/adapter_model.safetensors part/adapter_model.safetensors || wrong "finetune $1: other adapters"
    logged whole_c/log.jsonl > a; logged part_c/log.jsonl > b; cmp -s a b || wrong "finetune $1: another log"
}
expect 0 'Saved' "$finetune" $steady --checkpoint whole_c --out whole
for signal in INT KILL; do
    rm -f out
    "$finetune" $steady --checkpoint part_c --out part > out 2> err &
    tries=0; until [ "$(cat part_c/log.jsonl 2> /dev/null | wc -l)" -ge 25 ] || [ $tries = 3000 ]; do sleep 0.01; tries=$((tries + 1)); done
    kill -s $signal $!; wait $!; got=$?
    [ $got = 130 ] || [ $got = 137 ] || wrong "finetune ended with $got on SIG$signal"
    [ -e part ] && wrong "finetune was not stopped, or leaves a part of its result"
    [ $signal = KILL ] || grep -q '^Interrupted after step [0-9]*; the same command goes on from there$' out || wrong "finetune does not say that it was stopped"
    expect 0 '^Goes on after step [1-9]' "$finetune" $steady --checkpoint part_c --out part --threads 2
    same_tuning "after SIG$signal"
    expect 0 '^Done already: the adapters are saved as part$' "$finetune" $steady --checkpoint part_c --out part
    expect 2 'is of a run with --rank 16, not 8' "$finetune" $steady --checkpoint part_c --out other --rank 8
    expect 2 'is of a run with --targets none, not q_proj,v_proj' "$finetune" $steady --checkpoint part_c --out other --targets q_proj,v_proj
    expect 2 'is of a run with bytes of text [0-9]*, not ' "$finetune" $steady --data mixed.jsonl --checkpoint part_c --out other
    rm -r part part_c
done
python3 - << 'END'
import os, shutil # models whose weights differ in the last element of a frozen matrix, and in one number of config.json
shutil.copytree("lm", "lm_moved"); shutil.copytree("lm", "lm_theta")
data = bytearray(open("lm_moved/model.safetensors", "rb").read()); data[-258] ^= 1
open("lm_moved/model.safetensors", "wb").write(data)
config = open("lm/config.json").read().replace("10000.0", "20000.0"); open("lm_theta/config.json", "w").write(config)
END
for form in '' --bf16; do
    short="--data chats.jsonl --template chatml --steps 2 --checkpoint short_c $form"
    expect 0 'Saved' "$finetune" lm $short --out short
    for other in lm_moved lm_theta; do expect 2 'is of a run with a model of hash [0-9]*, not [0-9]' "$finetune" $other $short --out other; done
    rm -r short short_c
done
ls -d ./*.unfinished > /dev/null 2>&1 && wrong "finetune leaves an unfinished folder"

# errors, each before anything is trained or written
refuses() { expect 2 "$@" --out never; [ ! -e never ] || wrong "finetune writes in spite of: $1"; }
refuses 'one folder or GGUF file of a model is needed' "$finetune" --data prose
refuses 'no data to train on: --data FILE' "$finetune" lm
expect 2 'no path for the result: --out PATH' "$finetune" lm --data prose
refuses '^finetune: nothing: cannot open: No such file' "$finetune" nothing --data prose
mkdir half whole_but
cp lm/tokenizer.json half; cp lm/config.json whole_but
refuses 'half: has no config.json' "$finetune" half --data prose
refuses 'whole_but: has no tokenizer.json' "$finetune" whole_but --data prose
refuses 'cannot open missing: No such file' "$finetune" lm --data missing
: > none.jsonl; : > none
refuses 'none.jsonl has no document' "$finetune" lm --data none.jsonl
refuses 'none is empty' "$finetune" lm --data none
refuses 'chats.jsonl:1: the tokenizer has no chat template: name one, as chatml, .* (--template)' "$finetune" lm --data chats.jsonl
printf '{"text": "fox"}\n\n{"texts": 1}\n' > bad.jsonl
refuses 'bad.jsonl:3: byte 0: the object has no "text"' "$finetune" lm --data bad.jsonl
printf '{"messages": [{"role": "user", "content": "fox"}]}\n' > unanswered.jsonl
refuses 'unanswered.jsonl has no token that the loss could count' "$finetune" lm --data unanswered.jsonl --template chatml
refuses "length 129 is more than the model's 128 tokens" "$finetune" lm --data prose --length 129
printf '\377\376a\000b\000' > wide
refuses 'wide is UTF-16: it must be saved as UTF-8' "$finetune" lm --data wide
printf 'text\000text' > nul
printf '\321\342\356\351 text' > cyrillic # in the code page 1251
printf 'caf\351 and %s' 'some more of the text' > latin
refuses 'nul is no text: byte 4 is NUL' "$finetune" lm --data nul
refuses 'cyrillic is no text in UTF-8: byte 0 is ill-formed' "$finetune" lm --data prose --valid cyrillic
refuses 'latin is no text in UTF-8: byte 3 is ill-formed' "$finetune" lm --data latin
refuses '[-][-]targets names no Linear' "$finetune" lm --data prose --targets ' ,'
refuses 'no Linear matches "\*.foo"' "$finetune" lm --data prose --targets foo
refuses '[-][-]lora or --full, and not both' "$finetune" lm --data prose --lora --full
refuses '[-][-]no-lora needs --full' "$finetune" lm --data prose --no-lora
refuses '[-][-]rank is about adapters' "$finetune" lm --data prose --full --rank 4
refuses '[-][-]bf16 needs adapters' "$finetune" lm --data prose --full --bf16
refuses '[-][-]valid FILE or --hold-out PART, and not both' "$finetune" lm --data prose --valid prose --hold-out 0.1
refuses '[-][-]hold-out 0.01 of 6 documents is none' "$finetune" $chats --hold-out 0.01
refuses '[-][-]every is about checkpoints' "$finetune" lm --data prose --every 4
expect 2 'lm is there already' "$finetune" lm --data prose --out lm
expect 2 'cannot make the folder no/where: No such file' "$finetune" lm --data prose --out no/where
python3 "$make_model" few tok.json vocab_size=200
refuses 'ids and the model 200 rows: new rows are no part of an adapter' "$finetune" few --data prose
expect 0 'ids and the model had 200 rows: it gets new ones' "$finetune" few --data prose --merge --out more --steps 1
python3 "$make_model" short tok.json max_position_embeddings=5
refuses '[-][-]sample has [0-9]* tokens, and the model at most 5' "$finetune" short --data prose --sample 'fox jumps over the lazy dog and the cat'
expect 2 'a loss\|tokens' "$finetune" lm --data prose --out x --sample ''
. "$of_embed"
cd ..
